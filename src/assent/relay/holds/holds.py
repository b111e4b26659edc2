"""Takes messages over until a person has decided: frozen, put to the desk as one case, shown as waiting."""

import asyncio
import hashlib
import hmac
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assent.cases.case import Subject
from assent.desk import minting
from assent.desk.owed import RELAY
from assent.desk.review_desk import ReviewDesk
from assent.errors import RelayConflict, Unavailable
from assent.ports.detector import Scannable
from assent.ports.identity import Principal
from assent.ports.relay_store import AuditRow, HoldRow, TaskRow
from assent.ports.store import Store
from assent.relay.a2a.building import task_reply
from assent.relay.a2a.problems import A2AProblem
from assent.relay.a2a.reading import Json
from assent.relay.a2a.reply import A2AReply
from assent.relay.access import Access, SpokenFor
from assent.relay.audit.trail import Trail
from assent.relay.faces import face_of
from assent.relay.holds.asking import (
    AGENT_ASKS,
    Matched,
    data_parts,
    draft_of,
    matched_by,
    role_of_matter,
    summary_of,
    text_shown,
)
from assent.relay.holds.body import DetectionSource, HoldBody
from assent.relay.holds.envelope import Frozen, freeze_call, freeze_reply
from assent.relay.holds.holder import text_digest
from assent.relay.holds.places import Place, Places, minted_id
from assent.relay.inspection import Answered, Exchange, Refused
from assent.relay.policies.evaluation import Evaluation
from assent.relay.policies.policy import Leg
from assent.relay.reasons import as_metadata
from assent.relay.registry import Subscription
from assent.relay.taskbook import Entry, Mask, TaskBook, row_of

ATTEMPTS = 16
MOST_TEXTS = 2_000
"""So many texts of one message are remembered as approved."""
REQUESTS = frozenset({Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK})
CANNOT_WAIT = "This needs a person's approval, which it cannot wait for."


class Taking(Struct, frozen=True, kw_only=True):
    """All that is known of a message that is about to be held."""

    exchange: Exchange
    frozen: Frozen
    matched: Matched
    pieces: Sequence[Scannable]
    source: DetectionSource
    place: Place
    reply: A2AReply | None = None

    @property
    def content(self) -> str:
        """What is said, by its digest: the same again if the same is said in another call."""
        said: object = self.exchange.call.message if self.reply is None else self.reply.document
        if self.reply is not None and self.reply.dialect.rpc:
            said = self.reply.document.get("result", self.reply.error)
        return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


class Holds:
    """A `Holder`, and what else may hold: agents that ask for input."""

    def __init__(
        self,
        *,
        store: Store,
        desk: ReviewDesk,
        book: TaskBook,
        access: Access,
        trail: Trail,
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.desk = desk
        self.book = book
        self.trail = trail
        self.now = now
        self.places = Places(book, access)
        self._access = access
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def hold(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Answered | Refused:
        """See `Holder`."""
        try:
            if leg in REQUESTS:
                return await self._hold_call(leg, exchange, evaluation)
            return await self._hold_reply(leg, exchange, evaluation)
        except SpokenFor as spoken_for:
            return self._answered(exchange, spoken_for.entry)
        except A2AProblem as problem:
            return Refused(problem)

    async def approved(self, exchange: Exchange) -> frozenset[str]:
        """See `Holder`."""
        named = [exchange.task_id]
        named += exchange.call.task_ids if exchange.reply is None else [exchange.reply.task_id]
        found: set[str] = set()
        for task_id in named:
            entry = None if task_id is None else await self.places.named(exchange.subscription, task_id)
            if entry is not None and entry.owner == exchange.subscription.source.name:
                found.update(entry.approved)
        return frozenset(found)

    async def asks(self, exchange: Exchange) -> Answered | Refused | None:
        """Hold an answer, an event or a push in which the agent asks for input; None for any other.

        What policies say of it was heard before. A task that is held already stays held once.
        """
        reply = exchange.reply
        if reply is None or reply.state != "input-required":
            return None
        if exchange.subscription.sink.input_required != "hold":
            return None
        try:
            return await self._hold_question(exchange, reply)
        except SpokenFor as spoken_for:
            return self._answered(exchange, spoken_for.entry)
        except A2AProblem as problem:
            return Refused(problem)

    async def face(self, subscription: Subscription, task_id: str) -> Entry | None:
        """The task under either of its names, if the relay speaks for it by now; None if the agent does."""
        entry = await self.places.named(subscription, task_id)
        return entry if entry is not None and (entry.mask or entry.ending) else None

    # What is frozen

    async def _hold_call(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Answered:
        call = exchange.call
        if call.message is None:
            raise A2AProblem("refused", CANNOT_WAIT)
        place = await self.places.of_call(exchange)
        pieces = [Scannable(piece.path, piece.text) for piece in call.pieces()]
        masked = evaluation.masked(pieces)
        document = call.document
        if masked != tuple(pieces):
            document = call.with_texts([piece.text for piece in masked])
        taking = Taking(
            exchange=exchange,
            frozen=freeze_call(leg, exchange, document),
            matched=matched_by(evaluation),
            pieces=pieces,
            source="POLICY_ESCALATION",
            place=place,
        )
        return await self._take(taking)

    async def _hold_reply(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Answered:
        reply = exchange.reply
        if reply is None:
            raise A2AProblem("refused", CANNOT_WAIT)
        pieces = [Scannable(piece.path, piece.text) for piece in reply.pieces()]
        masked = evaluation.masked(pieces)
        if masked != tuple(pieces):
            reply = replace(reply, document=reply.with_texts([piece.text for piece in masked]))
        taking = await self._answer_taken("response", leg, exchange, reply)
        return await self._take(replace(taking, matched=matched_by(evaluation), pieces=pieces))

    async def _hold_question(self, exchange: Exchange, reply: A2AReply) -> Answered:
        taking = await self._answer_taken("input", Leg.RESPONSE_TO_SOURCE, exchange, reply)
        entry = taking.place.entry
        if entry is None:
            raise A2AProblem("agent_response", "The agent asks for input without a task.")
        pieces = [Scannable(piece.path, piece.text) for piece in reply.pieces()]
        source: DetectionSource = "PUSH_NOTIFICATION" if exchange.pushed else "AGENT_INPUT_REQUIRED"
        return await self._take(replace(taking, pieces=pieces, source=source))

    async def _answer_taken(
        self, matter: Literal["response", "input"], leg: Leg, exchange: Exchange, reply: A2AReply
    ) -> Taking:
        """An answer in the caller's own names; raises A2AProblem for what has no task to wait in."""
        subscription = exchange.subscription
        noted = reply
        if reply.error is None:
            noted = await self._access.note(subscription, reply, own=exchange.task_id)
        place = await self.places.of_reply(exchange, noted)
        if place.entry is None and exchange.call.message is None:
            raise A2AProblem("refused", CANNOT_WAIT)
        theirs = exchange.upstream_task
        if theirs is None and reply.task_id is not None:
            theirs = reply.task_id
            known = await self.book.find(subscription.tenant, subscription.sink.id, "task", theirs)
            theirs = theirs if known is None else known.upstream_id or theirs
        frozen = freeze_reply(
            matter, leg, exchange, noted, upstream_task=theirs, upstream_context=reply.context_id
        )
        return Taking(
            exchange=exchange,
            frozen=frozen,
            matched=AGENT_ASKS,
            pieces=(),
            source="POLICY_ESCALATION",
            place=place,
            reply=noted,
        )

    # How it is taken over

    async def _take(self, taking: Taking) -> Answered:
        """Open the case and write the hold, once: a message that comes again meets the hold it has."""
        exchange, known = taking.exchange, taking.place.entry
        subscription = exchange.subscription
        name = known.id if known is not None else taking.content
        async with self._lock(subscription.tenant, subscription.sink.id, name):
            if known is not None and known.id != exchange.task_id:
                held = await self.face(subscription, known.id)
                if held is not None:  # by what came a moment before
                    return self._answered(exchange, held)
            for count in range(ATTEMPTS):
                hold_id, entry = self._named(taking, count)
                earlier = await self.store.hold(hold_id)
                if earlier is None:
                    try:
                        return self._answered(exchange, await self._file(taking, hold_id, entry))
                    except RelayConflict:
                        earlier = await self.store.hold(hold_id)
                if earlier is not None and earlier.status == "PENDING":
                    waiting = await self.places.named(subscription, earlier.task_id)
                    return self._answered(exchange, waiting or entry)
        raise Unavailable()

    async def _file(self, taking: Taking, hold_id: str, entry: Entry) -> Entry:
        exchange, subscription = taking.exchange, taking.exchange.subscription
        draft = draft_of(
            taking.frozen,
            exchange,
            taking.matched,
            taking.pieces,
            task_id=entry.id,
            max_context_bytes=self.desk.limits.max_context_bytes,
        )
        opened = await self.desk.open(
            draft,
            owner_of(subscription.tenant),
            idempotency_key=await self._key(hold_id, msgspec.json.encode(draft)),
            subject=Subject(door=RELAY, ref=hold_id),
        )
        now = self.now()
        metadata = as_metadata(taking.matched.metadata)
        masked = replace(
            entry,
            mask=Mask(hold_id=hold_id, metadata=metadata),
            upstream_id=taking.frozen.frame.upstream_task or entry.upstream_id,
        )
        hold = self._row(taking, hold_id, opened.case_id, masked, metadata, now)
        tasks = self._task_rows(subscription, masked, fresh=taking.place.context_id is None, at=now)
        await self.book.flush()  # or an earlier entry of these names would come after this
        await self.store.add_hold(hold, tasks=tasks, events=self._events(taking, hold))
        self.book.adopt(tasks)
        return masked

    def _named(self, taking: Taking, count: int) -> tuple[str, Entry]:
        """The ids of the hold and of its task: the same again for the same message of the same sender."""
        exchange, frame = taking.exchange, taking.frozen.frame
        subscription, known = exchange.subscription, taking.place.entry
        said = exchange.call.message_id if taking.reply is None else _name_of(taking.reply)
        parts = (
            subscription.tenant,
            subscription.source.name,
            subscription.sink.id,
            frame.leg.value,
            frame.matter,
            said or uuid.uuid4().hex,
            taking.content,
            known.id if known is not None else "",
            str(count),
        )
        hold_id = minted_id("hold", *parts)
        if known is not None:
            return hold_id, known
        entry = Entry(
            id=minted_id("task", *parts),
            owner=subscription.source.name,
            upstream_id=None,
            context_id=taking.place.context_id or minted_id("context", *parts),
        )
        return hold_id, entry

    def _row(
        self,
        taking: Taking,
        hold_id: str,
        case_id: str,
        entry: Entry,
        metadata: Json,
        now: datetime,
    ) -> HoldRow:
        exchange, matched, frame = taking.exchange, taking.matched, taking.frozen.frame
        subscription = exchange.subscription
        seen = [text_digest(piece.text) for piece in taking.pieces[:MOST_TEXTS]]
        body = HoldBody(
            frame=frame,
            digest=taking.frozen.digest,
            source_kind=subscription.source.kind,
            reason=metadata,
            role=role_of_matter(frame.matter),
            text=text_shown(taking.pieces),
            data=data_parts(exchange, taking.reply),
            summary=summary_of(frame.matter, subscription, matched),
            context_id=entry.context_id or entry.id,
            message_id=exchange.call.message_id,
            policy=matched.policy,
            matched=matched.content,
            texts=tuple(dict.fromkeys(seen)),
        )
        return HoldRow(
            id=hold_id,
            tenant=subscription.tenant,
            case_id=case_id,
            status="PENDING",
            rev=1,
            detection_source=taking.source,
            source=subscription.source.name,
            sink=subscription.sink.id,
            task_id=entry.id,
            policy_name=None if matched.policy is None else matched.policy.name,
            correlation_id=exchange.correlation_id,
            created_at=now,
            body=msgspec.json.encode(body),
            envelope=taking.frozen.data,
        )

    def _task_rows(
        self, subscription: Subscription, entry: Entry, *, fresh: bool, at: datetime
    ) -> list[TaskRow]:
        tenant, agent = subscription.tenant, subscription.sink.id
        rows = [row_of(tenant, agent, "task", entry, at)]
        if fresh and entry.context_id is not None:
            context = Entry(id=entry.context_id, owner=entry.owner, upstream_id=None)
            rows.append(row_of(tenant, agent, "context", context, at))
        return rows

    def _events(self, taking: Taking, hold: HoldRow) -> list[AuditRow]:
        exchange, frame = taking.exchange, taking.frozen.frame
        metadata = {
            "approvalId": hold.id,
            "caseId": hold.case_id,
            "detectionSource": hold.detection_source,
            "leg": frame.leg.value,
            "digest": taking.frozen.digest,
            "policyName": hold.policy_name,
        }

        def event(type: str, message: str, state: str | None) -> AuditRow:
            return self.trail.row(
                type,
                exchange.subscription,
                correlation_id=exchange.correlation_id,
                action="HUMAN_REVIEW_REQUIRED",
                transport="JSONRPC" if frame.dialect.rpc else "REST",
                message=message,
                task_id=hold.task_id,
                message_id=exchange.call.message_id,
                task_state=state,
                metadata=metadata,
            )

        found = summary_of(frame.matter, exchange.subscription, taking.matched)
        return [
            event("HITL", found, None),
            event("HITL_GUARD", "The task is guarded until a person has decided.", "working"),
        ]

    def _answered(self, exchange: Exchange, entry: Entry) -> Answered:
        call = exchange.call
        face = face_of(entry, call.dialect, self.now())
        return Answered(task_reply(face, call.operation, call.dialect, call.rpc_id))

    async def _key(self, hold_id: str, draft: bytes) -> str:
        """The Idempotency-Key of a hold's case: what is sealed under it must not open with what is stored."""
        secret = await self.store.secret("relay", minting.secret())
        told = hold_id.encode() + hashlib.sha256(draft).digest()
        return hmac.new(bytes.fromhex(secret), told, hashlib.sha256).hexdigest()

    def _lock(self, tenant: str, agent: str, name: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant, agent, name), asyncio.Lock())


def owner_of(tenant: str) -> Principal:
    """Whose the cases about a tenant's held messages are."""
    return Principal(name=f"relay:{tenant}")


def _name_of(reply: A2AReply) -> str | None:
    """What tells one answer from another that says the same."""
    about = reply.task or reply.status_update
    status = about.get("status") if about is not None else None
    told = status.get("timestamp") if isinstance(status, dict) else None
    return reply.message_id or (told if isinstance(told, str) else None)
