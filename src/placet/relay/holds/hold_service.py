"""Hold messages: freeze them, open a case for each, and answer the caller with a waiting task."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from placet.cases.case import Subject
from placet.desk import random_values
from placet.desk.new_deliveries import RELAY
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, RelayConflict, Unavailable
from placet.ports.hold_store import HoldCreation
from placet.ports.identity import Principal
from placet.ports.task_store import TaskRow
from placet.protocol.duration import format_duration, parse_duration
from placet.relay.a2a.builders import build_task_reply
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.holds.backlog import Backlog, BacklogFull
from placet.relay.holds.case_draft import (
    AGENT_INPUT_REASON,
    build_draft,
    find_data_parts,
    hold_reason_from_evaluation,
)
from placet.relay.holds.frozen_message import freeze_call, freeze_reply
from placet.relay.holds.hold_body import DetectionSource
from placet.relay.holds.hold_notifier import HoldNotifier
from placet.relay.holds.hold_storage import HoldCreationStore
from placet.relay.holds.new_hold import MAX_ATTEMPTS, NewHold
from placet.relay.holds.task_locator import TaskLocator, get_target_task_id, unavailable_task_error
from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.policy import Leg
from placet.relay.registry.subscriptions import Subscription
from placet.relay.settings import MAX_PENDING_HOLDS
from placet.relay.tasks.access import TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.reasons import reason_to_metadata
from placet.relay.tasks.task_repository import Task, TaskRepository, row_from_task
from placet.relay.tasks.task_view import task_view

REQUEST_LEGS = frozenset({Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK})
CANNOT_HOLD = "This needs a person's approval, which it cannot wait for."


class HoldService:
    """A `MessageHolder` that also holds agents' requests for input."""

    def __init__(
        self,
        *,
        store: HoldCreationStore,
        desk: ReviewDesk,
        book: TaskRepository,
        access: TaskAccess,
        trail: AuditLog,
        now: Callable[[], datetime],
        timeout: str | None = None,
        max_pending: int = MAX_PENDING_HOLDS,
    ) -> None:
        self.store = store
        self.desk = desk
        self.book = book
        self.trail = trail
        self.now = now
        self.notices: HoldNotifier | None = None
        """Tells whoever wants to know of every hold."""
        self.places = TaskLocator(book, access)
        self._access = access
        self._timeout = _limit_timeout(timeout, desk.limits.max_timeout_for)
        self._backlog = Backlog(store, most=max_pending)
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()
        self._under_way: set[asyncio.Task[AnswerVerdict]] = set()

    async def hold(
        self, leg: Leg, request: InspectionRequest, evaluation: Evaluation
    ) -> AnswerVerdict | RefuseVerdict:
        """See `MessageHolder`."""
        try:
            if leg in REQUEST_LEGS:
                return await self._hold_call(leg, request, evaluation)
            return await self._hold_reply(leg, request, evaluation)
        except TaskOwnedByRelay as spoken_for:
            return self._build_verdict(request, spoken_for.entry)
        except A2AError as problem:
            return RefuseVerdict(problem)

    async def list_approved(self, request: InspectionRequest) -> frozenset[str]:
        """See `MessageHolder`."""
        about = get_target_task_id(request.call) if request.reply is None else request.reply.task_id
        found: set[str] = set()
        for task_id in (request.task_id, about):
            entry = None if task_id is None else await self.places.find_task(request.subscription, task_id)
            if entry is not None and entry.owner == request.subscription.source.name:
                found.update(entry.approved)
        return frozenset(found)

    async def hold_input_request(self, request: InspectionRequest) -> AnswerVerdict | RefuseVerdict | None:
        """Hold an answer, an event or a push in which the agent asks for input; None for any other.

        What policies say of it was heard before. A task that is held already stays held once.
        """
        reply = request.reply
        if reply is None or reply.state != "input-required":
            return None
        if request.subscription.sink.input_required != "hold":
            return None
        try:
            return await self._hold_question(request, reply)
        except TaskOwnedByRelay as spoken_for:
            return self._build_verdict(request, spoken_for.entry)
        except A2AError as problem:
            return RefuseVerdict(problem)

    async def find_relay_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """The task under either of its names, if the relay speaks for it by now; None if the agent does."""
        entry = await self.places.find_task(subscription, task_id)
        return entry if entry is not None and (entry.hold_id or entry.ending) else None

    async def aclose(self) -> None:
        """Finish what is being taken over."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    # What is frozen

    async def _hold_call(self, leg: Leg, request: InspectionRequest, evaluation: Evaluation) -> AnswerVerdict:
        call = request.call
        if call.message is None:
            raise A2AError("refused", CANNOT_HOLD)
        place = await self.places.locate_call(request)
        pieces = call.pieces()
        masked = evaluation.mask(pieces)
        document = call.document
        if masked != tuple(pieces):
            document = call.with_texts([piece.text for piece in masked])
        taking = NewHold(
            request=request,
            frozen=freeze_call(leg, request, document),
            matched=hold_reason_from_evaluation(evaluation),
            pieces=pieces,
            source="POLICY_ESCALATION",
            place=place,
        )
        return await self._take(taking)

    async def _hold_reply(
        self, leg: Leg, request: InspectionRequest, evaluation: Evaluation
    ) -> AnswerVerdict:
        reply = request.reply
        if reply is None:
            raise A2AError("refused", CANNOT_HOLD)
        pieces = reply.pieces()
        masked = evaluation.mask(pieces)
        if masked != tuple(pieces):
            reply = replace(reply, document=reply.with_texts([piece.text for piece in masked]))
        taking = await self._freeze_answer("response", leg, request, reply)
        return await self._take(
            replace(taking, matched=hold_reason_from_evaluation(evaluation), pieces=pieces)
        )

    async def _hold_question(self, request: InspectionRequest, reply: A2AReply) -> AnswerVerdict:
        taking = await self._freeze_answer("input", Leg.RESPONSE_TO_SOURCE, request, reply)
        entry = taking.place.entry
        if entry is None:
            raise A2AError("agent_response", "The agent asks for input without a task.")
        pieces = reply.pieces()
        source: DetectionSource = "PUSH_NOTIFICATION" if request.pushed else "AGENT_INPUT_REQUIRED"
        return await self._take(replace(taking, pieces=pieces, source=source))

    async def _freeze_answer(
        self, matter: Literal["response", "input"], leg: Leg, request: InspectionRequest, reply: A2AReply
    ) -> NewHold:
        """An answer in the caller's own names; raises A2AProblem for what has no task to wait in."""
        subscription = request.subscription
        noted = reply
        if reply.error is None:
            noted = await self._access.note(subscription, reply, own=request.task_id)
        place = await self.places.locate_reply(request, noted)
        if place.entry is None and request.call.message is None:
            raise A2AError("refused", CANNOT_HOLD)
        theirs = request.upstream_task
        if theirs is None and reply.task_id is not None:
            theirs = reply.task_id
            known = await self.book.find(subscription.tenant, subscription.sink.id, "task", theirs)
            theirs = theirs if known is None else known.upstream_id or theirs
        frozen = freeze_reply(
            matter, leg, request, noted, upstream_task=theirs, upstream_context=reply.context_id
        )
        return NewHold(
            request=request,
            frozen=frozen,
            matched=AGENT_INPUT_REASON,
            pieces=(),
            source="POLICY_ESCALATION",
            place=place,
            reply=noted,
        )

    # How it is taken over

    async def _take(self, taking: NewHold) -> AnswerVerdict:
        """Take a message over to the end, whoever leaves meanwhile: a case without its hold leads nowhere."""
        job = asyncio.create_task(self._take_once(taking))
        self._under_way.add(job)
        job.add_done_callback(self._under_way.discard)
        job.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever has left
        return await asyncio.shield(job)

    async def _take_once(self, taking: NewHold) -> AnswerVerdict:
        """Open the case and write the hold, once: a message that comes again meets the hold it has."""
        request, known = taking.request, taking.place.entry
        subscription = request.subscription
        name = known.id if known is not None else taking.content
        secret = await self.store.get_or_create_secret("relay", random_values.generate_secret())
        async with self._lock(subscription.tenant, subscription.sink.id, name):
            if known is not None and known.id != request.task_id:
                held = await self.find_relay_task(subscription, known.id)
                if held is not None:  # by what came a moment before
                    if not taking.is_held_by(held, secret):
                        raise unavailable_task_error(held)
                    return self._build_verdict(request, held)
            for count in range(MAX_ATTEMPTS):
                hold_id, entry = taking.names(secret, count)
                earlier = await self.store.get_hold(hold_id)
                if earlier is None:
                    try:
                        return self._build_verdict(
                            request, await self._file_within_limit(taking, hold_id, entry)
                        )
                    except RelayConflict:
                        earlier = await self.store.get_hold(hold_id)
                if earlier is not None and earlier.status == "PENDING":
                    waiting = await self.places.find_task(subscription, earlier.task_id)
                    return self._build_verdict(request, waiting or entry)
        raise Unavailable()

    async def _file_within_limit(self, taking: NewHold, hold_id: str, entry: Task) -> Task:
        """The task of a new hold; raises BacklogFull, which is written down, if there is no room for one."""
        try:
            async with self._backlog.reserve(taking.request):
                return await self._file(taking, hold_id, entry)
        except BacklogFull:
            self.trail.record(taking.build_backlog_event(self.trail, self._backlog.most))
            raise

    async def _file(self, taking: NewHold, hold_id: str, entry: Task) -> Task:
        """Write the case, the hold, its task and its audit events in one transaction."""
        request, subscription = taking.request, taking.request.subscription
        draft = build_draft(
            taking.frozen,
            request,
            taking.matched,
            taking.pieces,
            data=find_data_parts(request, taking.reply),
            task_id=entry.id,
            timeout=self._timeout,
            max_context_bytes=self.desk.limits.max_context_bytes,
        )
        now = self.now()
        metadata = reason_to_metadata(taking.matched.metadata)
        masked = replace(
            entry,
            hold_id=hold_id,
            hold_metadata=metadata,
            upstream_id=taking.frozen.frame.upstream_task or entry.upstream_id,
        )
        tasks = self._task_rows(subscription, masked, fresh=taking.place.context_id is None, at=now)

        def build_hold(case_id: str) -> HoldCreation:
            hold = taking.row(hold_id, case_id, masked, metadata, now)
            return HoldCreation(hold=hold, tasks=tuple(tasks), events=tuple(taking.events(self.trail, hold)))

        await self.book.flush()  # otherwise an earlier entry of these names would be written after this one
        try:
            opened = await self.desk.open(
                draft,
                case_owner(subscription.tenant),
                subject=Subject(entry_point=RELAY, ref=hold_id),
                hold=build_hold,
            )
        except CaseConflict:
            raise RelayConflict() from None
        self.book.adopt(tasks)
        hold = taking.row(hold_id, opened.case_id, masked, metadata, now)
        if self.notices is not None:
            await self.notices.tell(hold)
        return masked

    def _task_rows(
        self, subscription: Subscription, entry: Task, *, fresh: bool, at: datetime
    ) -> list[TaskRow]:
        tenant, agent = subscription.tenant, subscription.sink.id
        rows = [row_from_task(tenant, agent, "task", entry, at)]
        if fresh and entry.context_id is not None:
            context = Task(id=entry.context_id, owner=entry.owner, upstream_id=None)
            rows.append(row_from_task(tenant, agent, "context", context, at))
        return rows

    def _build_verdict(self, request: InspectionRequest, entry: Task) -> AnswerVerdict:
        call = request.call
        face = task_view(entry, call.dialect, self.now())
        return AnswerVerdict(build_task_reply(face, call.operation, call.dialect, call.rpc_id))

    def _lock(self, tenant: str, agent: str, name: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant, agent, name), asyncio.Lock())


def case_owner(tenant: str) -> Principal:
    """Whose the cases about a tenant's held messages are."""
    return Principal(name=f"relay:{tenant}")


def _limit_timeout(timeout: str | None, most: timedelta) -> str | None:
    """How long a case may wait, but never longer than any may."""
    return None if timeout is None else format_duration(min(parse_duration(timeout), most))
