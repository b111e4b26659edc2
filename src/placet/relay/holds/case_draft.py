"""Build the review case for a held message."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.desk.draft import CaseDraft
from placet.ports.detector import Scannable
from placet.ports.identity import Principal
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.json_format import get_parts
from placet.relay.a2a.reply import A2AReply, digest_message
from placet.relay.a2a.text_extraction import UnreadableContent
from placet.relay.a2a.text_normalization import normalize_text
from placet.relay.hold import FrozenMessage, HoldingPolicy, HoldKind
from placet.relay.holds.held_files import describe_files
from placet.relay.holds.message_excerpts import (
    excerpt_data,
    excerpt_texts,
    format_label,
    is_identifier,
    is_in_data_part,
)
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import PolicyAction
from placet.relay.task_reasons import HitlHeld, HitlHeldAgentInputRequired, RelayReason
from placet.relay.tenants import Subscription
from placet.reviews.held_messages.declaration import HELD_MESSAGES
from placet.text.characters import replace_unstorable
from placet.text.truncation import truncate

CONTEXT_FIELD = "held_message"
MAX_MATCHED_TEXT = 2_000
MAX_LIST_ITEMS = 50
MAX_REQUESTS = 3
MAX_REQUEST_TEXT = 2_000
MAX_CONTEXT_GROWTH = 24
"""How much larger than its message the context of a case may be: each text has a path, marks and escapes."""
RESERVED_BYTES = 48 * 1024
"""Bytes of a case's context that are reserved for everything except the texts."""
MIN_TEXT_BYTES = 1024


class HoldReason(Struct, frozen=True, kw_only=True):
    """Why a message is held: a policy matched, or the agent asked for input."""

    policy: HoldingPolicy | None = None
    findings: tuple[Finding, ...] = ()
    unchecked: tuple[str, ...] = ()
    reason: str
    unreadable_paths: tuple[str, ...] = ()

    @property
    def metadata(self) -> RelayReason:
        """Return the metadata of the task that the caller gets."""
        if self.policy is None:
            return HitlHeldAgentInputRequired()
        return HitlHeld(
            policy_name=self.policy.name,
            policy_version=self.policy.version,
            policy_level=self.policy.level,
        )

    @property
    def content(self) -> str | None:
        """Return the matched texts for the reviewer; None if the hold is not caused by a policy."""
        if self.policy is None:
            return None
        held = [one.text for one in self.findings if one.action is PolicyAction.HUMAN_REVIEW_REQUIRED]
        texts = dict.fromkeys(held or [one.text for one in self.findings])
        content = "\n".join(map(_annotate_hidden_text, texts))
        return truncate(replace_unstorable(content), MAX_MATCHED_TEXT) or None


def _annotate_hidden_text(text: str) -> str:
    reading = normalize_text(text)
    return text if reading is None else f"{text} → {reading}"


AGENT_INPUT_REASON = HoldReason(reason="The agent asks for input.")


def hold_reason_from_evaluation(evaluation: Evaluation, released_events: int = 0) -> HoldReason:
    """Return the reason to hold a message; raise ValueError if no policy decided the evaluation.

    `released_events` is the number of events of a held stream that the caller has got before.
    """
    applied = evaluation.decided_by
    if applied is None:
        raise ValueError("No policy decided this evaluation, so the message cannot be held.")
    policy = applied.policy
    released = f"The caller has already got {released_events} events of the stream."
    return HoldReason(
        policy=HoldingPolicy(
            id=policy.policy_id, name=policy.name, version=policy.version, level=applied.level.value
        ),
        findings=evaluation.findings,
        unchecked=tuple(f"{one.applied.policy.name}: {one.reason}" for one in evaluation.unchecked),
        reason=evaluation.reason if not released_events else f"{evaluation.reason} {released}",
        unreadable_paths=evaluation.unreadable_paths,
    )


def build_case_owner(tenant: str) -> Principal:
    """Return the principal that owns the cases of a tenant's held messages."""
    return Principal(name=f"relay:{tenant}")


def build_draft(
    frozen: FrozenMessage,
    request: InspectionRequest,
    hold_reason: HoldReason,
    pieces: Sequence[Scannable],
    *,
    data: list[Any] | None,
    files: Sequence[UnreadableContent],
    task_id: str,
    timeout: str | None,
    max_context_bytes: int,
) -> CaseDraft:
    """Return the draft of the case, with the message and its findings."""
    matter, subscription = frozen.frame.matter, request.subscription
    facts = _build_facts(frozen, request, hold_reason, task_id)
    return CaseDraft(
        type=HELD_MESSAGES.type,
        prompt=build_prompt(matter, subscription),
        message=build_summary(matter, subscription, hold_reason),
        context={
            CONTEXT_FIELD: _add_message(
                facts, hold_reason, pieces, data, files, max_context_bytes=max_context_bytes
            )
        },
        timeout=timeout,
        default_action="reject",
        inline_actions=HELD_MESSAGES.inline_actions,
        agent=format_label(subscription.source.name),
        asked_by=(subscription.source.name, subscription.sink.id),
    )


def build_prompt(matter: HoldKind, subscription: Subscription) -> str:
    """Return the question to the reviewer in one sentence."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "request":
        return f"May this message from {caller} go to the agent {agent}?"
    if matter == "response":
        return f"May {caller} get this response from the agent {agent}?"
    return f"The agent {agent} asks for input. May it continue?"


def build_summary(matter: HoldKind, subscription: Subscription, hold_reason: HoldReason) -> str:
    """Return what is held and why, without content of the message."""
    caller, agent = format_label(subscription.source.name), format_label(subscription.sink.id)
    if matter == "input":
        return f"The agent {agent} asks for input while it works for {caller}."
    subject = (
        f"A message from {caller} to {agent}"
        if matter == "request"
        else f"A response from {agent} to {caller}"
    )
    return f"{subject} is held. {replace_unstorable(hold_reason.reason)}"[:2000]


def join_visible_texts(pieces: Sequence[Scannable]) -> str:
    """Return the texts of a message joined, without ids and data parts."""
    texts = [piece.text for piece in pieces if not (is_in_data_part(piece) or is_identifier(piece))]
    return replace_unstorable("\n".join(texts))


def find_data_parts(call: A2ACall, reply: A2AReply | None) -> list[Any] | None:
    """Return the data parts of the held message; None if it has none."""
    parents = [call.message or {}] if reply is None else _list_objects_with_parts(reply)
    found = [part["data"] for parent in parents for part in get_parts(parent) if "data" in part]
    return found or None


def list_request_texts(request: InspectionRequest) -> list[str]:
    """Return the last messages that the agent got in this task, each with its beginning, the newest last.

    Of the messages in the agent's `history`, only those count that the relay itself forwarded.
    """
    task = None if request.reply is None else request.reply.task
    history = [] if task is None else task.get("history")
    known = request.reply.forwarded.get(str(task.get("id")), frozenset()) if request.reply and task else ()
    messages = [one for one in history if isinstance(one, dict)] if isinstance(history, list) else []
    found = {digest: one for one in messages if (digest := digest_message(one)) in known}
    if request.sent_message is not None and request.forwarded is not None:
        found[request.forwarded] = request.sent_message
    texts = [_join_parts(message) for message in found.values()]
    return [truncate(replace_unstorable(text), MAX_REQUEST_TEXT) for text in texts if text][-MAX_REQUESTS:]


def _join_parts(message: dict[str, Any]) -> str:
    texts = [
        part["text"]
        if isinstance(part.get("text"), str)
        else msgspec.json.encode(part["data"]).decode()
        if "data" in part
        else ""
        for part in get_parts(message)
    ]
    return "\n".join(text for text in texts if text)


def get_author_role(matter: HoldKind) -> Literal["user", "agent"]:
    """Return the A2A role of the held message's author."""
    return "user" if matter == "request" else "agent"


def _build_facts(
    frozen: FrozenMessage, request: InspectionRequest, hold_reason: HoldReason, task_id: str
) -> dict[str, Any]:
    """Return what the reviewer sees besides the message's content."""
    frame, subscription = frozen.frame, request.subscription
    return {
        "matter": frame.matter,
        "leg": frame.leg.value,
        "sender": format_label(_get_sender(frame.matter, subscription)),
        "receiver": format_label(_get_receiver(frame.matter, subscription)),
        "caller": format_label(subscription.source.name),
        "caller_kind": subscription.source.kind,
        "agent": format_label(subscription.sink.id),
        "policy": _describe_policy(hold_reason),
        "reason": replace_unstorable(hold_reason.reason)[:500],
        "unchecked": [format_label(one) for one in hold_reason.unchecked[:MAX_LIST_ITEMS]],
        "digest": frozen.digest,
        "task_id": format_label(task_id),
        "correlation_id": format_label(request.correlation_id),
        "request": list_request_texts(request) if frame.matter == "input" else [],
    }


def _add_message(
    facts: dict[str, Any],
    hold_reason: HoldReason,
    pieces: Sequence[Scannable],
    data: list[Any] | None,
    files: Sequence[UnreadableContent],
    *,
    max_context_bytes: int,
) -> dict[str, Any]:
    """Return the facts with the message, or as much of it as fits into the case's context."""
    room = max_context_bytes - RESERVED_BYTES
    while True:
        parts = excerpt_data(data, room=room // 3)
        described = describe_files(files, room=room // 3)
        shows_data = not parts["data_left_out"]
        texts = excerpt_texts(pieces, hold_reason.findings, room=room // 3, shows_data=shows_data)
        context = {**facts, **parts, **described, **texts}
        if room < MIN_TEXT_BYTES or len(msgspec.json.encode(context)) <= max_context_bytes - MIN_TEXT_BYTES:
            return context
        room //= 2  # escapes can make a text longer in JSON than its own length


def _list_objects_with_parts(reply: A2AReply) -> list[dict[str, Any]]:
    """Return the objects of a response that have parts: messages and artifacts."""
    content = reply.task or reply.status_update or reply.artifact_update or {}
    status, artifacts = content.get("status"), content.get("artifacts")
    found: list[Any] = [reply.message, content.get("artifact")]
    found += [status.get("message")] if isinstance(status, dict) else []
    found += artifacts if isinstance(artifacts, list) else []
    return [one for one in found if isinstance(one, dict)]


def _get_sender(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.source.name if matter == "request" else subscription.sink.id


def _get_receiver(matter: HoldKind, subscription: Subscription) -> str:
    return subscription.sink.id if matter == "request" else subscription.source.name


def _describe_policy(hold_reason: HoldReason) -> dict[str, str] | None:
    policy = hold_reason.policy
    if policy is None:
        return None
    return {"name": format_label(policy.name), "version": policy.version, "level": policy.level}
