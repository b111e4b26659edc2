"""Evaluate policies on a sample message without side effects."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policies.evaluation import UNREADABLE_FILE, Evaluation, Outcome, hold_unchecked
from placet.relay.policies.policy import Leg, Policy
from placet.relay.policies.policy_set import PolicySet
from placet.relay.policies.text_joining import get_text_group, join_texts, split_findings

REQUEST_LEGS = (Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK)
SampleCarrier = A2ACall | A2AReply


class SampleMessage(Struct, frozen=True, kw_only=True):
    """A message, or a task with everything its agent wrote, to be looked at."""

    message: dict[str, Any] | None = None
    task: dict[str, Any] | None = None

    def on(self, leg: Leg) -> SampleCarrier:
        """How it would travel on this leg."""
        content = {"task": self.task} if self.message is None else {"message": self.message}
        if leg in REQUEST_LEGS:
            document: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": content}
            return A2ACall(dialect=RPC_1_0, operation="send", document=document)
        return A2AReply(
            dialect=RPC_1_0, operation="send", document={"jsonrpc": "2.0", "id": 1, "result": content}
        )


def sample_from_text(text: str) -> SampleMessage:
    """A message with nothing but this text."""
    return SampleMessage(message={"role": "ROLE_USER", "parts": [{"text": text}]})


def extract_pieces(carrier: SampleCarrier) -> list[Scannable]:
    """The texts that are looked at; raises `ValidationFailed` for a message that no agent would be sent."""
    try:
        return [Scannable(piece.path, piece.text) for piece in carrier.pieces()]
    except (A2AError, RecursionError) as problem:
        raise ValidationFailed(f"The message cannot be looked at: {problem}") from problem


async def evaluate_pieces(
    inspector: PolicyEvaluator,
    pieces: list[Scannable],
    *,
    source: str,
    sink: str,
    leg: Leg,
    at: datetime,
    unreadable: bool = False,
) -> Evaluation:
    """What becomes of a message with these texts, of which those of one message are read together too.

    `unreadable` says that there is a file in it about which a person would be asked.
    """
    found = Evaluation(outcome=Outcome.PASS)
    if pieces:
        joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
        found = await inspector.inspect(joined.scannables, source=source, sink=sink, leg=leg, at=at)
        found = split_findings(found, joined, pieces) if joined.spans else found
    if unreadable:
        list_acting = inspector.list_acting(source=source, sink=sink, leg=leg, at=at)
        found = hold_unchecked(found, list_acting, UNREADABLE_FILE)
    return found


def build_forwarded(carrier: SampleCarrier, texts: Sequence[Scannable]) -> dict[str, Any]:
    """The message or task with other texts; raises `ValidationFailed` where names would become the same."""
    try:
        document = carrier.with_texts([piece.text for piece in texts])
    except A2AError as problem:
        raise ValidationFailed(f"The message cannot be masked: {problem}") from problem
    content = document["params"] if isinstance(carrier, A2ACall) else document["result"]
    found: dict[str, Any] = content["message"] if "message" in content else content["task"]
    return found


def combine_evaluations(first: Evaluation, second: Evaluation) -> Evaluation:
    """What becomes of a message that both sets of policies have looked at."""
    stricter = first if first.outcome.strictness >= second.outcome.strictness else second
    return Evaluation(
        outcome=stricter.outcome,
        decided_by=stricter.decided_by,
        matched=first.matched + second.matched,
        clean=first.clean + second.clean,
        unchecked=first.unchecked + second.unchecked,
        not_reached=first.not_reached + second.not_reached,
        findings=first.findings + second.findings,
        opaque=first.opaque or second.opaque,
    )


def choose_strictest(outcomes: Sequence[Outcome]) -> Outcome:
    """The one that counts."""
    return max(outcomes, key=lambda outcome: outcome.strictness, default=Outcome.PASS)


async def build_evaluator(policy: Policy, detectors: DetectorRegistry, *, now: datetime) -> PolicyEvaluator:
    """Eyes for this policy alone, on every message."""
    book = PolicySet.for_everyone([policy], now=now)
    return await asyncio.to_thread(PolicyEvaluator, book, detectors)
