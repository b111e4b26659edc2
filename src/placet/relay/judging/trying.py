"""What policies would do with a message that nobody sent: looked at as in traffic, and nothing happens."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reply import A2AReply
from placet.relay.detectors.inspector import Inspector
from placet.relay.detectors.registry import Detectors
from placet.relay.policies.book import PolicyBook
from placet.relay.policies.evaluation import UNREADABLE, Evaluation, Outcome, doubting
from placet.relay.policies.joining import join, part_of, told_of_each
from placet.relay.policies.policy import Leg, Policy

REQUEST_LEGS = (Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK)
Carrier = A2ACall | A2AReply


class Specimen(Struct, frozen=True, kw_only=True):
    """A message, or a task with everything its agent wrote, to be looked at."""

    message: dict[str, Any] | None = None
    task: dict[str, Any] | None = None

    def on(self, leg: Leg) -> Carrier:
        """How it would travel on this leg."""
        content = {"task": self.task} if self.message is None else {"message": self.message}
        if leg in REQUEST_LEGS:
            document: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": content}
            return A2ACall(dialect=RPC_1_0, operation="send", document=document)
        return A2AReply(
            dialect=RPC_1_0, operation="send", document={"jsonrpc": "2.0", "id": 1, "result": content}
        )


def specimen_of_text(text: str) -> Specimen:
    """A message with nothing but this text."""
    return Specimen(message={"role": "ROLE_USER", "parts": [{"text": text}]})


def pieces_of(carrier: Carrier) -> list[Scannable]:
    """The texts that are looked at; raises `ValidationFailed` for a message that no agent would be sent."""
    try:
        return [Scannable(piece.path, piece.text) for piece in carrier.pieces()]
    except (A2AProblem, RecursionError) as problem:
        raise ValidationFailed(f"The message cannot be looked at: {problem}") from problem


async def look(
    inspector: Inspector,
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
        joined = join(pieces, [part_of(piece.path) for piece in pieces])
        found = await inspector.inspect(joined.scannables, source=source, sink=sink, leg=leg, at=at)
        found = told_of_each(found, joined, pieces) if joined.spans else found
    if unreadable:
        able = inspector.able(source=source, sink=sink, leg=leg, at=at)
        found = doubting(found, able, UNREADABLE)
    return found


def forwarded(carrier: Carrier, texts: Sequence[Scannable]) -> dict[str, Any]:
    """The message or task with other texts; raises `ValidationFailed` where names would become the same."""
    try:
        document = carrier.with_texts([piece.text for piece in texts])
    except A2AProblem as problem:
        raise ValidationFailed(f"The message cannot be masked: {problem}") from problem
    content = document["params"] if isinstance(carrier, A2ACall) else document["result"]
    found: dict[str, Any] = content["message"] if "message" in content else content["task"]
    return found


def together(first: Evaluation, second: Evaluation) -> Evaluation:
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


def strictest(outcomes: Sequence[Outcome]) -> Outcome:
    """The one that counts."""
    return max(outcomes, key=lambda outcome: outcome.strictness, default=Outcome.PASS)


async def inspector_of(policy: Policy, detectors: Detectors, *, now: datetime) -> Inspector:
    """Eyes for this policy alone, on every message."""
    book = PolicyBook.for_everyone([policy], now=now)
    return await asyncio.to_thread(Inspector, book, detectors)
