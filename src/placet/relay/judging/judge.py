"""Applies a tenant's policies to its messages: lets them pass, masked or not, refuses them, has them held."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Operation
from placet.relay.a2a.gathering import ARTIFACT_ID, gathered
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reading import Json, text_of
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.texts import Unread
from placet.relay.audit.trail import Trail
from placet.relay.holds.holder import Holder, file_digest, text_digest
from placet.relay.judging.detections import detections
from placet.relay.judging.inspection import (
    PASSED,
    Changed,
    Exchange,
    Glance,
    Passed,
    Refused,
    Released,
    StreamVerdict,
    Verdict,
)
from placet.relay.judging.shelf import Shelf
from placet.relay.membership.registry import Subscription
from placet.relay.policies.book import Applied
from placet.relay.policies.evaluation import UNREADABLE, Evaluation, Outcome, doubting, sparing
from placet.relay.policies.joining import Joined, Member, across_texts, join, part_of, told_of_each
from placet.relay.policies.policy import Action, Leg

NOT_READY = "The relay's policies cannot be read, so nothing passes; try again later."
HOLDABLE: frozenset[Operation] = frozenset({"send", "stream", "get", "subscribe", "cancel"})
"""What is about one task, or begins one: there is something to hold and to come back to."""
WRITTEN_WITHIN_S = 5.0
NOTHING = Evaluation(outcome=Outcome.PASS)
_RESPONSES = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)


class Judge:
    """The `Inspector` that knows policies."""

    def __init__(self, shelf: Shelf, *, holder: Holder, trail: Trail, now: Callable[[], datetime]) -> None:
        self._shelf = shelf
        self._holder = holder
        self._trail = trail
        self._now = now

    def watches(self, leg: Leg, subscription: Subscription) -> bool:
        """Whether a policy is in force for the leg; also if nobody knows."""
        return self._strictest(leg, subscription) is not None

    def withholds(self, subscription: Subscription) -> bool:
        """Whether a policy on the way back does more than to note what it finds."""
        found = (self._strictest(leg, subscription) for leg in _RESPONSES)
        return any(one is not None and one.strictness >= Action.MASK.strictness for one in found)

    def glance(self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply) -> Glance:
        """Whether nothing is found in all of a message at once."""
        inspector = self._shelf.find(subscription.tenant)
        if inspector is None:
            return Glance.UNSURE
        return inspector.glance(
            message, source=subscription.source.name, sink=subscription.sink.id, leg=leg, now=self._now
        )

    async def inspect(self, leg: Leg, exchange: Exchange) -> Verdict:
        """See `Inspector`."""
        message: A2ACall | A2AReply = exchange.call
        if leg in _RESPONSES and exchange.reply is not None:
            message = exchange.reply
        pieces = message.pieces()
        members = [part_of(one.path) for one in pieces] if len(pieces) > 1 else []
        found = await self._evaluate(leg, exchange, pieces, members, message.unread())
        if found.outcome is Outcome.PASS:
            return PASSED
        self._trail.note(*detections(self._trail, leg, exchange, found))
        if found.outcome is Outcome.BLOCK:
            return Refused(_refusal(found))
        if found.outcome is Outcome.HOLD:
            return await self._held(leg, exchange, found)
        if found.outcome is Outcome.MASK:
            return Changed(message.with_texts([one.text for one in found.masked(pieces)]))
        return PASSED

    async def inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """All events at once; to be held, they become the one answer that a person can decide about."""
        pieces = [reply.pieces() for reply in replies]
        every = [piece for own in pieces for piece in own]
        unread = [one for reply in replies for one in reply.unread()]
        about = replace(exchange, reply=next((one for one in replies if one.task_id is not None), None))
        found = await self._evaluate(leg, about, every, _members(replies, pieces), unread)
        if found.outcome is Outcome.HOLD:
            return await self._held_together(leg, exchange, replies)
        if found.outcome is Outcome.PASS:
            return PASSED
        self._trail.note(*detections(self._trail, leg, about, found))
        if found.outcome is Outcome.BLOCK:
            return Refused(_refusal(found))
        if found.outcome is Outcome.MASK:
            texts = iter([one.text for one in found.masked(every)])
            changed = [
                replace(reply, document=reply.with_texts([next(texts) for _ in own])) if own else reply
                for reply, own in zip(replies, pieces, strict=True)
            ]
            return Released(tuple(changed))
        return PASSED

    def _strictest(self, leg: Leg, subscription: Subscription) -> Action | None:
        inspector = self._shelf.find(subscription.tenant)
        if inspector is None:
            return Action.BLOCK
        return inspector.strictest(
            source=subscription.source.name, sink=subscription.sink.id, leg=leg, at=self._now()
        )

    async def _evaluate(
        self,
        leg: Leg,
        exchange: Exchange,
        pieces: Sequence[Scannable],
        members: Sequence[Member | None],
        unread: Sequence[Unread],
    ) -> Evaluation:
        way = exchange.subscription
        inspector = self._shelf.find(way.tenant) or await self._shelf.inspector(way.tenant)
        if inspector is None:
            raise A2AProblem("busy", NOT_READY)
        found = NOTHING
        if pieces:
            joined = join(pieces, members)
            found = await inspector.inspect(
                joined.scannables, source=way.source.name, sink=way.sink.id, leg=leg, at=self._now()
            )
            if found.outcome is not Outcome.PASS:
                found = await self._reconsidered(exchange, pieces, joined, found)
        if unread:
            found = replace(found, opaque=tuple(one.path for one in unread))
            if way.sink.unreadable_files == "hold" and exchange.call.operation != "extended_card":
                able = inspector.able(source=way.source.name, sink=way.sink.id, leg=leg, at=self._now())
                found = await self._doubted(exchange, found, able, unread)
        if exchange.ledger is not None and (unread or found.outcome is not Outcome.PASS):
            exchange.ledger.add(leg, found)
        return found

    async def _doubted(
        self, exchange: Exchange, found: Evaluation, able: Sequence[Applied], unread: Sequence[Unread]
    ) -> Evaluation:
        """Files that nobody can read wait for a person, but for those that one has let pass before."""
        if not able:
            return found
        approved = await self._holder.approved(exchange)
        if all(file_digest(one.content) in approved for one in unread):
            return found
        return doubting(found, able, UNREADABLE)

    async def _reconsidered(
        self, exchange: Exchange, pieces: Sequence[Scannable], joined: Joined, found: Evaluation
    ) -> Evaluation:
        across = across_texts(found, joined)
        if joined.spans:
            found = told_of_each(found, joined, pieces)
        if found.outcome is not Outcome.HOLD:
            return found
        return await self._spared(exchange, pieces, found, across)

    async def _spared(
        self,
        exchange: Exchange,
        pieces: Sequence[Scannable],
        found: Evaluation,
        across: Mapping[str, Sequence[int]],
    ) -> Evaluation:
        """What a person has let pass before is not held again; halves of it are not the whole."""
        approved = await self._holder.approved(exchange)
        if not approved:
            return found
        passed = {
            number
            for number, one in enumerate(pieces)
            if text_digest(one.text) in approved or _is_echo(one, exchange)
        }
        for text, halves in across.items():
            if text_digest(text) not in approved:
                passed.difference_update(halves)
        return sparing(found, passed, all_approved=len(passed) == len(pieces))

    async def _held(self, leg: Leg, exchange: Exchange, found: Evaluation) -> Verdict:
        if exchange.call.operation not in HOLDABLE:
            return Refused(_refusal(found))
        # What led to a hold is on disk before the hold is: no person decides about what nobody can trace.
        async with asyncio.timeout(WRITTEN_WITHIN_S):
            await self._trail.flush()
        return await self._holder.hold(leg, exchange, found)

    async def _held_together(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> StreamVerdict:
        """A stream cannot wait: its events become the one answer they come to, which is looked at anew."""
        whole = gathered(replies, exchange.call.rpc_id)
        if whole is None:
            raise A2AProblem("agent_response", "The agent's stream says nothing.")
        verdict = await self.inspect(leg, replace(exchange, reply=whole))
        if isinstance(verdict, Changed):
            return Released((replace(whole, document=verdict.document),))
        return Released((whole,)) if isinstance(verdict, Passed) else verdict


def _is_echo(piece: Scannable, exchange: Exchange) -> bool:
    """Whether it is the id of the call that an answer repeats, which is another each time."""
    return exchange.reply is not None and (piece.path, piece.text) == ("id", str(exchange.call.rpc_id))


def _refusal(found: Evaluation) -> A2AProblem:
    """What the caller is told: which policy it was, and nothing of what it found."""
    if found.decided_by is None:
        return A2AProblem("refused", "A policy does not let this message pass.")
    policy = found.decided_by.policy
    return A2AProblem(
        "refused",
        f"A policy does not let this message pass: {policy.name}.",
        data={
            "policy_name": policy.name,
            "policy_version": policy.version,
            "policy_level": found.decided_by.level.value,
        },
    )


def _members(replies: Sequence[A2AReply], pieces: Sequence[Sequence[Scannable]]) -> list[Member | None]:
    """What belongs together in a stream: a piece of work and what is appended to it, and all that is said."""
    keys: list[Hashable | None] = []
    parts_in: dict[Hashable, set[int]] = {}
    begun: dict[str | None, int] = {}
    for number, (reply, own) in enumerate(zip(replies, pieces, strict=True)):
        named = _names(number, reply, begun)
        for piece in own:
            member = part_of(piece.path)
            key = None if member is None else named.get(str(member.of), (number, member.of))
            keys.append(key)
            if key is not None:
                parts_in.setdefault(key, set()).add(number)
    # A word may be cut anywhere into events: the pieces of a continued text mean nothing alone.
    continued = {key for key, events in parts_in.items() if len(events) > 1 and key != "status"}
    return [None if key is None else Member(key, only_joined=key in continued) for key in keys]


def _names(number: int, reply: A2AReply, begun: dict[str | None, int]) -> dict[str, Hashable]:
    """By the path of its parts: under which name a text of this event is read together with others."""
    update = reply.artifact_update
    if update is not None:
        name = _artifact_id(update.get("artifact"))
        if not update.get("append") or name not in begun:
            begun[name] = number
        return {"artifact": ("artifact", name, begun[name])}
    listed = reply.task.get("artifacts") if reply.task is not None else None
    found: dict[str, Hashable] = {"status.message": "status"}
    for place, one in enumerate(listed if isinstance(listed, list) else []):
        name = _artifact_id(one)
        begun[name] = number
        found[f"artifacts[{place}]"] = ("artifact", name, number)
    return found


def _artifact_id(artifact: Json | None) -> str | None:
    return text_of(artifact, ARTIFACT_ID)
