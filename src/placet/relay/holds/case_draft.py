"""Build the review case for a held message."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.desk.draft import CaseDraft
from placet.ports.detector import Scannable
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_normalization import normalize_text
from placet.relay.a2a.translation import get_parts
from placet.relay.holds.frozen_message import FrozenMessage, HoldKind
from placet.relay.holds.hold_body import HoldingPolicy
from placet.relay.holds.message_excerpts import (
    excerpt_data,
    excerpt_texts,
    format_label,
    is_identifier,
    is_in_data_part,
)
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding
from placet.relay.policies.policy import PolicyAction
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.reasons import (
    HitlHeld,
    HitlHeldAgentInputRequired,
    RelayReason,
)
from placet.reviews.held_messages.declaration import HELD_MESSAGES
from placet.text.characters import replace_unstorable

CONTEXT_FIELD = "held_message"
MAX_TEXT = 100_000
MAX_MATCHED_TEXT = 2_000
MAX_LIST_ITEMS = 50
RESERVED_BYTES = 16 * 1024
"""So much of a case's context is left for everything but the texts."""
MIN_ROOM = 1024


class HoldReason(Struct, frozen=True, kw_only=True):
    """Why a message is held: a policy matched, or the agent asked for input."""

    policy: HoldingPolicy | None = None
    findings: tuple[Finding, ...] = ()
    unchecked: tuple[str, ...] = ()
    reason: str
    opaque: tuple[str, ...] = ()

    @property
    def metadata(self) -> RelayReason:
        """What callers are told."""
        if self.policy is None:
            return HitlHeldAgentInputRequired()
        return HitlHeld(
            policy_name=self.policy.name,
            policy_version=self.policy.version,
            policy_level=self.policy.level,
        )

    @property
    def content(self) -> str | None:
        """What was found, for a reviewer; None where no policy looked."""
        if self.policy is None:
            return None
        held = [one.text for one in self.findings if one.action is PolicyAction.HUMAN_REVIEW_REQUIRED]
        found = "\n".join(
            map(_annotate_hidden_text, dict.fromkeys(held or [one.text for one in self.findings]))
        )
        return replace_unstorable(found)[:MAX_MATCHED_TEXT] or None


def _annotate_hidden_text(text: str) -> str:
    reading = normalize_text(text)
    return text if reading is None else f"{text} → {reading}"


AGENT_INPUT_REASON = HoldReason(reason="The agent asks for input.")


def hold_reason_from_evaluation(evaluation: Evaluation) -> HoldReason:
    """What an evaluation says; raises ValueError if no policy decided it."""
    applied = evaluation.decided_by
    if applied is None:
        raise ValueError("a message is held by a policy, or not at all")
    policy = applied.policy
    return HoldReason(
        policy=HoldingPolicy(
            id=policy.policy_id, name=policy.name, version=policy.version, level=applied.level.value
        ),
        findings=evaluation.findings,
        unchecked=tuple(f"{one.applied.policy.name}: {one.reason}" for one in evaluation.unchecked),
        reason=evaluation.reason,
        opaque=evaluation.opaque,
    )


def build_draft(
    frozen: FrozenMessage,
    request: InspectionRequest,
    matched: HoldReason,
    pieces: Sequence[Scannable],
    *,
    data: list[Any] | None,
    task_id: str,
    timeout: str | None,
    max_context_bytes: int,
) -> CaseDraft:
    """The question, with the message and what was found in it."""
    matter, subscription = frozen.frame.matter, request.subscription
    facts = _build_facts(frozen, request, matched, task_id)
    return CaseDraft(
        type=HELD_MESSAGES.type,
        prompt=build_prompt(matter, subscription),
        message=build_summary(matter, subscription, matched),
        context={CONTEXT_FIELD: _add_message(facts, matched, pieces, data, max_context_bytes)},
        timeout=timeout,
        default_action="reject",
        inline_actions=HELD_MESSAGES.inline_actions,
        agent=format_label(subscription.source.name),
    )


def build_prompt(matter: HoldKind, subscription: Subscription) -> str:
    """The question in one sentence."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "request":
        return f"May this message from {caller} go to the agent {agent}?"
    if matter == "response":
        return f"May {caller} see this answer of the agent {agent}?"
    return f"The agent {agent} asks for input. May it go on?"


def build_summary(matter: HoldKind, subscription: Subscription, matched: HoldReason) -> str:
    """What is held and why, in a sentence that shows nothing of it."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "input":
        return f"The agent {agent} asks for input while it works for {caller}."
    what = (
        f"A message from {caller} to {agent}" if matter == "request" else f"An answer of {agent} to {caller}"
    )
    return f"{what} is held. {replace_unstorable(matched.reason)}"[:2000]


def join_visible_texts(pieces: Sequence[Scannable]) -> str:
    """All texts of a message as one, without its ids and its data."""
    said = [piece.text for piece in pieces if not (is_in_data_part(piece) or is_identifier(piece))]
    return replace_unstorable("\n".join(said))[:MAX_TEXT]


def find_data_parts(request: InspectionRequest, reply: A2AReply | None) -> list[Any] | None:
    """The data parts of what is held; None if there are none."""
    holders = [request.call.message or {}] if reply is None else _list_part_holders(reply)
    found = [part["data"] for holder in holders for part in get_parts(holder) if "data" in part]
    return found or None


def get_author_role(matter: HoldKind) -> Literal["user", "agent"]:
    """Who wrote what is held."""
    return "user" if matter == "request" else "agent"


def _build_facts(
    frozen: FrozenMessage, request: InspectionRequest, matched: HoldReason, task_id: str
) -> dict[str, Any]:
    """All that a reviewer is told about a message, besides what is in it."""
    frame, subscription = frozen.frame, request.subscription
    return {
        "matter": frame.matter,
        "leg": frame.leg.value,
        "sender": format_label(_get_sender(frame.matter, subscription)),
        "receiver": format_label(_get_receiver(frame.matter, subscription)),
        "caller": format_label(subscription.source.name),
        "caller_kind": subscription.source.kind,
        "agent": format_label(subscription.sink.id),
        "policy": _describe_policy(matched),
        "reason": replace_unstorable(matched.reason)[:500],
        "unchecked": [format_label(one) for one in matched.unchecked[:MAX_LIST_ITEMS]],
        "files": [format_label(path) for path in matched.opaque[:MAX_LIST_ITEMS]],
        "digest": frozen.digest,
        "task_id": format_label(task_id),
        "correlation_id": format_label(request.correlation_id),
    }


def _add_message(
    facts: dict[str, Any],
    matched: HoldReason,
    pieces: Sequence[Scannable],
    data: list[Any] | None,
    max_context_bytes: int,
) -> dict[str, Any]:
    """The facts and as much of the message as a case has room for."""
    room = max_context_bytes - RESERVED_BYTES
    while True:
        parts = excerpt_data(data, room=room // 4)
        data_shown = not parts["data_left_out"]
        texts = excerpt_texts(pieces, matched.findings, room=room - room // 4, data_shown=data_shown)
        held = {**facts, **parts, **texts}
        if room < MIN_ROOM or len(msgspec.json.encode(held)) <= max_context_bytes - MIN_ROOM:
            return held
        room //= 2  # a text full of quotation marks is longer in JSON than it is


def _list_part_holders(reply: A2AReply) -> list[dict[str, Any]]:
    """What of an answer has parts: a message, what a status says, and pieces of work."""
    about = reply.task or reply.status_update or reply.artifact_update or {}
    status, artifacts = about.get("status"), about.get("artifacts")
    found: list[Any] = [reply.message, about.get("artifact")]
    found += [status.get("message")] if isinstance(status, dict) else []
    found += artifacts if isinstance(artifacts, list) else []
    return [one for one in found if isinstance(one, dict)]


def _get_sender(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.source.name if matter == "request" else subscription.sink.id


def _get_receiver(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.sink.id if matter == "request" else subscription.source.name


def _describe_policy(matched: HoldReason) -> dict[str, str] | None:
    policy = matched.policy
    if policy is None:
        return None
    return {"name": format_label(policy.name), "version": policy.version, "level": policy.level}
