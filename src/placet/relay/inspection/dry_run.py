"""Evaluate policies on a sample message without side effects."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.errors import ValidationFailed
from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, list_user_messages
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policy.evaluation import UNREADABLE_FILE, Evaluation, Outcome, hold_unchecked
from placet.relay.policy.policy import REQUEST_LEGS, Leg, Policy
from placet.relay.policy.policy_set import PolicySet
from placet.relay.policy.text_joining import get_text_group, join_texts, split_findings

SampleCarrier = A2ACall | A2AReply


class SampleMessage(Struct, frozen=True, kw_only=True):
    """A sample to evaluate: a message, or a task with the texts of its agent."""

    message: dict[str, Any] | None = None
    task: dict[str, Any] | None = None

    def on(self, leg: Leg) -> SampleCarrier:
        """Return the call or reply that would carry the sample on this leg."""
        content = {"task": self.task} if self.message is None else {"message": self.message}
        if leg in REQUEST_LEGS:
            document: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": content}
            return A2ACall(dialect=RPC_1_0, operation="send", document=document)
        reply = A2AReply(
            dialect=RPC_1_0, operation="send", document={"jsonrpc": "2.0", "id": 1, "result": content}
        )
        return assume_forwarded(reply)


def assume_forwarded(reply: A2AReply) -> A2AReply:
    """Return the reply as if the relay had forwarded every message in it that claims to be the user's."""
    forwarded = {
        task["id"]: list_user_messages(task) for task in reply.tasks if isinstance(task.get("id"), str)
    }
    return replace(reply, forwarded=forwarded)


def sample_from_text(text: str) -> SampleMessage:
    """Return a sample message with one text part."""
    return SampleMessage(message={"role": "ROLE_USER", "parts": [{"text": text}]})


def extract_pieces(carrier: SampleCarrier) -> list[Scannable]:
    """Return the texts to scan. Raises `ValidationFailed` if the relay would not forward the message."""
    try:
        return [*carrier.pieces()]
    except (A2AError, RecursionError) as problem:
        raise ValidationFailed(f"The message cannot be inspected: {problem}") from problem


async def evaluate_pieces(
    evaluator: PolicyEvaluator,
    pieces: list[Scannable],
    *,
    source: str,
    sink: str,
    leg: Leg,
    at: datetime,
    unreadable: bool = False,
) -> Evaluation:
    """Evaluate the texts of a message, each alone and joined with the other texts of the message.

    `unreadable` says that the message has a file that is not text and must be held.
    """
    evaluation = Evaluation(outcome=Outcome.PASS)
    if pieces:
        joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
        evaluation = await evaluator.inspect(joined.scannables, source=source, sink=sink, leg=leg, at=at)
        evaluation = split_findings(evaluation, joined, pieces) if joined.spans else evaluation
    if unreadable:
        acting = evaluator.list_acting(source=source, sink=sink, leg=leg, at=at)
        evaluation = hold_unchecked(evaluation, acting, UNREADABLE_FILE)
    return evaluation


def build_forwarded(carrier: SampleCarrier, texts: Sequence[Scannable]) -> dict[str, Any]:
    """Return the message or task with other texts. Raises `ValidationFailed` if it cannot be masked."""
    try:
        document = carrier.with_texts([piece.text for piece in texts])
    except A2AError as problem:
        raise ValidationFailed(f"The message cannot be masked: {problem}") from problem
    content = document["params"] if isinstance(carrier, A2ACall) else document["result"]
    forwarded: dict[str, Any] = content["message"] if "message" in content else content["task"]
    return forwarded


def combine_evaluations(first: Evaluation, second: Evaluation) -> Evaluation:
    """Return the result of two evaluations of one message. The stricter outcome wins."""
    stricter = first if first.outcome.strictness >= second.outcome.strictness else second
    return Evaluation(
        outcome=stricter.outcome,
        decided_by=stricter.decided_by,
        matched=first.matched + second.matched,
        clean=first.clean + second.clean,
        unchecked=first.unchecked + second.unchecked,
        not_reached=first.not_reached + second.not_reached,
        findings=first.findings + second.findings,
        unreadable_paths=first.unreadable_paths or second.unreadable_paths,
        near_misses=first.near_misses + second.near_misses,
    )


def choose_strictest(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the strictest outcome, or PASS if there is none."""
    return max(outcomes, key=lambda outcome: outcome.strictness, default=Outcome.PASS)


async def build_evaluator(policy: Policy, detectors: DetectorRegistry, *, now: datetime) -> PolicyEvaluator:
    """Return an evaluator that applies only this policy, to every source and sink."""
    policy_set = PolicySet.for_everyone([policy], now=now)
    return await asyncio.to_thread(PolicyEvaluator, policy_set, detectors)
