"""The question that a held message is to a person."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.desk.draft import CaseDraft
from placet.ports.detector import Scannable
from placet.relay.a2a.readings import read_out
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.translation import parts_of
from placet.relay.holds.body import HeldBy
from placet.relay.holds.envelope import Frozen, Matter
from placet.relay.holds.showing import in_data, is_id, label, shown_data, shown_texts
from placet.relay.judging.inspection import Exchange
from placet.relay.membership.registry import Subscription
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding
from placet.relay.policies.policy import Action
from placet.relay.tasks.reasons import (
    HitlHeld,
    HitlHeldAgentInputRequired,
    RelayReason,
)
from placet.text.characters import replace_unstorable

FIELD = "held_message"
LONGEST_TEXT = 100_000
LONGEST_MATCHED = 2_000
MOST_FACTS = 50
OVERHEAD = 16 * 1024
"""So much of a case's context is left for everything but the texts."""
LEAST_ROOM = 1024


class Matched(Struct, frozen=True, kw_only=True):
    """Why a message is held: a policy, or the agent's own wish."""

    policy: HeldBy | None = None
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
        held = [one.text for one in self.findings if one.action is Action.HUMAN_REVIEW_REQUIRED]
        found = "\n".join(map(_as_read, dict.fromkeys(held or [one.text for one in self.findings])))
        return replace_unstorable(found)[:LONGEST_MATCHED] or None


def _as_read(text: str) -> str:
    reading = read_out(text)
    return text if reading is None else f"{text} → {reading}"


AGENT_ASKS = Matched(reason="The agent asks for input.")


def matched_by(evaluation: Evaluation) -> Matched:
    """What an evaluation says; raises ValueError if no policy decided it."""
    applied = evaluation.decided_by
    if applied is None:
        raise ValueError("a message is held by a policy, or not at all")
    policy = applied.policy
    return Matched(
        policy=HeldBy(
            id=policy.policy_id, name=policy.name, version=policy.version, level=applied.level.value
        ),
        findings=evaluation.findings,
        unchecked=tuple(f"{one.applied.policy.name}: {one.reason}" for one in evaluation.unchecked),
        reason=evaluation.reason,
        opaque=evaluation.opaque,
    )


def draft_of(
    frozen: Frozen,
    exchange: Exchange,
    matched: Matched,
    pieces: Sequence[Scannable],
    *,
    data: list[Any] | None,
    task_id: str,
    timeout: str | None,
    max_context_bytes: int,
) -> CaseDraft:
    """The question, with the message and what was found in it."""
    matter, subscription = frozen.frame.matter, exchange.subscription
    facts = _facts(frozen, exchange, matched, task_id)
    return CaseDraft(
        type="approval",
        prompt=prompt_of(matter, subscription),
        message=summary_of(matter, subscription, matched),
        context={FIELD: _with_message(facts, matched, pieces, data, max_context_bytes)},
        timeout=timeout,
        default_action="reject",
        inline_actions=("approve", "reject"),
        agent=label(subscription.source.name),
    )


def prompt_of(matter: Matter, subscription: Subscription) -> str:
    """The question in one sentence."""
    caller, agent = label(subscription.source.name), label(subscription.sink.id)
    if matter == "request":
        return f"May this message from {caller} go to the agent {agent}?"
    if matter == "response":
        return f"May {caller} see this answer of the agent {agent}?"
    return f"The agent {agent} asks for input. May it go on?"


def summary_of(matter: Matter, subscription: Subscription, matched: Matched) -> str:
    """What is held and why, in a sentence that shows nothing of it."""
    caller, agent = label(subscription.source.name), label(subscription.sink.id)
    if matter == "input":
        return f"The agent {agent} asks for input while it works for {caller}."
    what = (
        f"A message from {caller} to {agent}" if matter == "request" else f"An answer of {agent} to {caller}"
    )
    return f"{what} is held. {replace_unstorable(matched.reason)}"[:2000]


def text_shown(pieces: Sequence[Scannable]) -> str:
    """All texts of a message as one, without its ids and its data."""
    said = [piece.text for piece in pieces if not (in_data(piece) or is_id(piece))]
    return replace_unstorable("\n".join(said))[:LONGEST_TEXT]


def data_parts(exchange: Exchange, reply: A2AReply | None) -> list[Any] | None:
    """The data parts of what is held; None if there are none."""
    holders = [exchange.call.message or {}] if reply is None else _holders(reply)
    found = [part["data"] for holder in holders for part in parts_of(holder) if "data" in part]
    return found or None


def role_of_matter(matter: Matter) -> Literal["user", "agent"]:
    """Who wrote what is held."""
    return "user" if matter == "request" else "agent"


def _facts(frozen: Frozen, exchange: Exchange, matched: Matched, task_id: str) -> dict[str, Any]:
    """All that a reviewer is told about a message, besides what is in it."""
    frame, subscription = frozen.frame, exchange.subscription
    return {
        "matter": frame.matter,
        "leg": frame.leg.value,
        "sender": label(_sender(frame.matter, subscription)),
        "receiver": label(_receiver(frame.matter, subscription)),
        "caller": label(subscription.source.name),
        "caller_kind": subscription.source.kind,
        "agent": label(subscription.sink.id),
        "policy": _policy(matched),
        "reason": replace_unstorable(matched.reason)[:500],
        "unchecked": [label(one) for one in matched.unchecked[:MOST_FACTS]],
        "files": [label(path) for path in matched.opaque[:MOST_FACTS]],
        "digest": frozen.digest,
        "task_id": label(task_id),
        "correlation_id": label(exchange.correlation_id),
    }


def _with_message(
    facts: dict[str, Any],
    matched: Matched,
    pieces: Sequence[Scannable],
    data: list[Any] | None,
    max_context_bytes: int,
) -> dict[str, Any]:
    """The facts and as much of the message as a case has room for."""
    room = max_context_bytes - OVERHEAD
    while True:
        parts = shown_data(data, room=room // 4)
        data_shown = not parts["data_left_out"]
        texts = shown_texts(pieces, matched.findings, room=room - room // 4, data_shown=data_shown)
        held = {**facts, **parts, **texts}
        if room < LEAST_ROOM or len(msgspec.json.encode(held)) <= max_context_bytes - LEAST_ROOM:
            return held
        room //= 2  # a text full of quotation marks is longer in JSON than it is


def _holders(reply: A2AReply) -> list[dict[str, Any]]:
    """What of an answer has parts: a message, what a status says, and pieces of work."""
    about = reply.task or reply.status_update or reply.artifact_update or {}
    status, artifacts = about.get("status"), about.get("artifacts")
    found: list[Any] = [reply.message, about.get("artifact")]
    found += [status.get("message")] if isinstance(status, dict) else []
    found += artifacts if isinstance(artifacts, list) else []
    return [one for one in found if isinstance(one, dict)]


def _sender(matter: Matter, subscription: Subscription) -> str:
    return subscription.source.name if matter == "request" else subscription.sink.id


def _receiver(matter: Matter, subscription: Subscription) -> str:
    return subscription.sink.id if matter == "request" else subscription.source.name


def _policy(matched: Matched) -> dict[str, str] | None:
    policy = matched.policy
    if policy is None:
        return None
    return {"name": label(policy.name), "version": policy.version, "level": policy.level}
