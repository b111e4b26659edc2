"""The poll response (spec 8) for all six states; fields that are None are omitted."""

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct

from placet.protocol.inline_submit import SubmittedBy
from placet.protocol.timestamp import Timestamp
from placet.protocol.verification import SubmitPath, VerificationResult


class Status(StrEnum):
    """The state of a case."""

    PENDING = "pending"
    OPENED = "opened"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether this state is final."""
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.EXPIRED, Status.CANCELLED})


class Signature(Struct, frozen=True, kw_only=True):
    """Proof of a result (spec 13.4): a detached JWS and where its key is published."""

    algorithm: str
    value: str
    signed_at: Timestamp
    signer: str


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the person decided."""

    action: str
    data: dict[str, Any]
    signature: Signature | None = None


class RespondedBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who answered, if the service verified it (spec 13.7)."""

    name: str | None = None
    email: str | None = None


class SubmissionContext(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the answer was submitted (spec 0.8)."""

    mode: SubmitPath
    submitted_via: str | None = None
    submitted_by: SubmittedBy | None = None
    verification_result: VerificationResult | None = None


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's progress in a form (spec 10.3.4)."""

    current_step: int | None = None
    total_steps: int | None = None
    completed_fields: int | None = None
    total_fields: int | None = None


class PollResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One response of the poll URL."""

    status: Literal["pending", "opened", "in_progress", "completed", "expired", "cancelled"]
    case_id: str
    created_at: Timestamp
    opened_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    expired_at: Timestamp | None = None
    cancelled_at: Timestamp | None = None
    result: Result | None = None
    responded_by: RespondedBy | None = None
    submission_context: SubmissionContext | None = None
    progress: Progress | None = None
    reminder_sent_at: Timestamp | None = None
    next_case_id: str | None = None
    default_action: str | None = None
    reason: str | None = None
