"""The profile `hitl-agent-access/0.1`: an agent prepares an operation, a person reviews it, it is committed.

The operation belongs to the service: its snapshot is what the person sees and what is executed. The review is
only the decision. These are the rules of the profile as functions; the service stores its operations.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import rfc8785
from msgspec import Meta, Struct

from placet.errors import CaseExpired, NotPermitted, OperationConflict, ValidationFailed
from placet.protocol.conversion import anchor_pattern, convert_input

CONTEXT_FIELD = "x-hitl-agent-access"
PROFILE = "hitl-agent-access/0.1"
SNAPSHOT_FIELD = "snapshot"
MAX_DEPTH = 32

OperationStatus = Literal[
    "awaiting_approval", "ready", "succeeded", "failed", "expired", "cancelled", "superseded"
]
TRANSITIONS: Mapping[OperationStatus, frozenset[OperationStatus]] = {
    "awaiting_approval": frozenset({"ready", "cancelled", "expired"}),
    "ready": frozenset({"succeeded", "failed", "expired", "cancelled", "superseded"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "expired": frozenset(),
    "cancelled": frozenset(),
    "superseded": frozenset(),
}
"""The life of an operation, as the profile draws it."""

OperationId = Annotated[str, Meta(min_length=1, max_length=256)]
Digest = Annotated[str, Meta(pattern=anchor_pattern("[0-9a-f]{64}"))]


class AgentAccessContext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`context["x-hitl-agent-access"]`: which operation the review is about. It grants nothing."""

    profile: Literal["hitl-agent-access/0.1"]
    binding: Literal["delegated-api"]
    operation_id: OperationId
    operation_version: Annotated[int, Meta(ge=1)]
    snapshot_digest: Digest
    execution_mode: Literal["explicit_commit"]


class PreparedOperation(Struct, frozen=True, kw_only=True):
    """An operation of a service. Its snapshot never changes; other terms are another operation."""

    id: str
    owner: str
    """The verified principal that prepared it."""
    snapshot: dict[str, Any]
    snapshot_digest: str
    status: OperationStatus
    expires_at: datetime
    version: int = 1
    case_id: str | None = None

    def move_to(self, status: OperationStatus) -> "PreparedOperation":
        """Return the operation in its next status. Raises OperationConflict if there is no such step."""
        if status not in TRANSITIONS[self.status]:
            raise OperationConflict(f"An operation that is {self.status} cannot become {status}.")
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return PreparedOperation(**{**fields, "status": status})


def prepare_operation(
    snapshot: Mapping[str, Any], *, id: str, owner: str, expires_at: datetime, needs_review: bool
) -> PreparedOperation:
    """Return a new operation: ready, or waiting for its review."""
    return PreparedOperation(
        id=id,
        owner=owner,
        snapshot=dict(snapshot),
        snapshot_digest=digest_snapshot(snapshot),
        status="awaiting_approval" if needs_review else "ready",
        expires_at=expires_at,
    )


def build_review_context(operation: PreparedOperation) -> dict[str, Any]:
    """Return the context of the review: the snapshot that the person sees, and what it belongs to."""
    return {
        SNAPSHOT_FIELD: operation.snapshot,
        CONTEXT_FIELD: {
            "profile": PROFILE,
            "binding": "delegated-api",
            "operation_id": operation.id,
            "operation_version": operation.version,
            "snapshot_digest": operation.snapshot_digest,
            "execution_mode": "explicit_commit",
        },
    }


def digest_snapshot(snapshot: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the snapshot's canonical JSON (RFC 8785), in lower-case hex.

    Raises ValidationFailed for numbers with a fraction: amounts are integers of the smallest unit.
    """
    _refuse_fractions(snapshot, MAX_DEPTH)
    try:
        return hashlib.sha256(rfc8785.dumps(dict(snapshot))).hexdigest()
    except (rfc8785.CanonicalizationError, ValueError, TypeError) as error:
        raise ValidationFailed("snapshot: is not JSON that can be written in canonical form.") from error


def parse_agent_access(context: Mapping[str, Any]) -> AgentAccessContext | None:
    """Return what the context says about its operation; None if it follows no profile.

    Raises ValidationFailed for a malformed binding, or for a snapshot that does not have its digest.
    """
    raw = context.get(CONTEXT_FIELD)
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise ValidationFailed(f"context.{CONTEXT_FIELD}: must be an object.")
    binding = convert_input(raw, AgentAccessContext, ValidationFailed, f"context.{CONTEXT_FIELD}")
    snapshot = context.get(SNAPSHOT_FIELD)
    if not isinstance(snapshot, dict):
        raise ValidationFailed("context.snapshot: is missing. The person reviews what will be executed.")
    if digest_snapshot(snapshot) != binding.snapshot_digest:
        raise ValidationFailed("context.snapshot: does not have the snapshot_digest of its operation.")
    return binding


def settle_review(operation: PreparedOperation, poll: Mapping[str, Any]) -> PreparedOperation:
    """Return the operation as the review of its case leaves it. Only a confirmation makes it ready."""
    if operation.status != "awaiting_approval" or poll.get("case_id") != operation.case_id:
        return operation
    status, result = poll.get("status"), poll.get("result")
    if status == "completed":
        is_confirmed = isinstance(result, Mapping) and result.get("action") == "confirm"
        return operation.move_to("ready" if is_confirmed else "cancelled")
    if status == "expired":
        return operation.move_to("expired")
    return operation.move_to("cancelled") if status == "cancelled" else operation


def require_committable(
    operation: PreparedOperation,
    *,
    principal: str,
    expected_version: int,
    snapshot_digest: str,
    now: datetime,
) -> None:
    """Raise unless this principal may now commit exactly this operation.

    Check it in the transaction that executes the operation and moves it to `succeeded`, so that two commits
    execute it once. An operation that has succeeded is reported, not executed again.
    """
    if principal != operation.owner:
        raise NotPermitted("This operation belongs to another principal.")
    is_same = hmac.compare_digest(snapshot_digest.encode(), operation.snapshot_digest.encode())
    if expected_version != operation.version or not is_same:
        raise OperationConflict("The operation has other terms than those that were reviewed.")
    if operation.status == "expired" or (operation.status == "ready" and now >= operation.expires_at):
        raise CaseExpired("The operation has expired. Prepare it again.")
    if operation.status != "ready":
        raise OperationConflict(f"The operation is {operation.status}, not ready.")


def _refuse_fractions(value: Any, depth: int) -> None:
    if isinstance(value, float):
        raise ValidationFailed("snapshot: has a number with a fraction. Write amounts in the smallest unit.")
    if depth == 0:
        raise ValidationFailed(f"snapshot: is nested deeper than {MAX_DEPTH} levels.")
    children = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    for child in children:
        _refuse_fractions(child, depth - 1)
