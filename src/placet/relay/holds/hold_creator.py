"""Hold messages: freeze each message, open its case, and give the caller a task to wait for."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from placet.cases.case import Subject
from placet.desk import random_values
from placet.desk.new_deliveries import RELAY
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, RelayConflict, Unavailable
from placet.ports.detector import Scannable
from placet.ports.hold_store import HoldCreation, HoldFilter, HoldStore
from placet.ports.relay_store import RelayStore
from placet.ports.task_store import TaskRow
from placet.protocol.duration import format_duration, parse_duration
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json, build_task_reply
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Exchange
from placet.relay.hold import DetectionSource, hold_from_row
from placet.relay.holds.hold_notifier import HoldNotifier
from placet.relay.holds.new_hold import MAX_ATTEMPTS, HoldTarget, NewHold, freeze_call, freeze_reply
from placet.relay.holds.review_case import (
    AGENT_INPUT_REASON,
    MAX_CONTEXT_GROWTH,
    build_case_owner,
    build_draft,
    find_data_parts,
    hold_reason_from_evaluation,
    list_request_texts,
)
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import mask_and_move
from placet.relay.policy.policy import Leg
from placet.relay.settings import MAX_PENDING_HOLDS
from placet.relay.task import (
    HAS_ENDED,
    NOT_ANSWERED,
    WAITS_FOR_DECISION,
    HoldTask,
    Task,
    TaskStatus,
    apply,
    row_from_task,
)
from placet.relay.tasks.access import TASK_NOT_FOUND, TaskAccess, TaskOwnedByRelay
from placet.relay.tasks.relay_tasks import task_view
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import Subscription

LIMIT_REACHED = "{limit:,} messages of this caller wait for a decision, which is the limit."
SEND_LATER = f"{LIMIT_REACHED} Send this one again when some are decided."
FETCH_LATER = f"{LIMIT_REACHED} The agent's response also needs one; fetch it again when some are decided."
FLUSH_WITHIN_S = 5.0
CANNOT_HOLD = "This call needs a person's approval, and a call without a message cannot be held."


class BacklogFull(A2AError):
    """A message is refused because its caller has too many pending holds."""

    def __init__(self, limit: int, *, has_response: bool) -> None:
        # After "busy" a caller sends the same call again. If the agent has already responded, it would do
        # its work twice, so the call is refused. An agent that pushes should push again.
        super().__init__(
            "refused" if has_response else "busy",
            (FETCH_LATER if has_response else SEND_LATER).format(limit=limit),
            data={"max_pending_holds": limit},
        )


class Backlog:
    """Counts the pending holds of each caller: those in the store, and those being written."""

    def __init__(self, store: HoldStore, *, limit: int) -> None:
        self.limit = limit
        self._store = store
        self._reserved: Counter[tuple[str, str]] = Counter()

    @asynccontextmanager
    async def reserve(self, exchange: Exchange, *, has_response: bool) -> AsyncIterator[None]:
        """Reserve one more hold while it is written; raise BacklogFull if the limit is reached.

        Earlier reservations count until they end, even if their hold is already in the store. So two
        concurrent calls may both be refused the last hold, but never both get it.
        """
        caller = exchange.subscription.tenant, exchange.subscription.source.name
        earlier = self._reserved[caller]
        self._reserved[caller] += 1
        try:
            if earlier + await self._count_pending(*caller) >= self.limit and not await self._was_approved(
                exchange
            ):
                raise BacklogFull(self.limit, has_response=has_response)
            yield
        finally:
            self._reserved[caller] -= 1
            if not self._reserved[caller]:
                del self._reserved[caller]

    async def _count_pending(self, tenant: str, caller: str) -> int:
        # The page after the limit is empty: only the total is needed, and messages may be large.
        pending = HoldFilter(status="PENDING", source=caller)
        _, total = await self._store.list_holds(tenant, pending, page=self.limit, size=1)
        return total

    async def _was_approved(self, exchange: Exchange) -> bool:
        """Return whether the message was approved and is held again. It has been counted once already."""
        if exchange.state.task_id is None:
            return False
        approved = HoldFilter(status="APPROVED", task_id=exchange.state.task_id)
        found, _ = await self._store.list_holds(exchange.subscription.tenant, approved, page=0, size=1)
        return any(not hold_from_row(row).stage.is_final for row in found)


class TaskLocator:
    """Finds the task of a message."""

    def __init__(self, access: TaskAccess) -> None:
        self._access = access

    async def locate_call(self, exchange: Exchange) -> HoldTarget:
        """Return the task of a call; raise A2AError if it cannot get messages."""
        subscription, call, own_task_id = exchange.subscription, exchange.call, exchange.state.task_id
        if own_task_id is not None:
            known = await self._find_or_create(subscription, own_task_id, call.context_id)
            return HoldTarget(task=known, context_id=known.context_id)
        task_id = call.target_task_id
        if task_id is None:
            if call.context_id is not None:
                await self._access.claim_context(subscription, call.context_id)
            return HoldTarget(task=None, context_id=call.context_id)
        task = await self.find_task(subscription, task_id)
        if task is None or task.owner != subscription.source.name:
            raise A2AError("task_not_found", TASK_NOT_FOUND)
        if task.is_kept_by_relay or not task.is_known_to_agent:
            raise build_unavailable_task_error(task)
        return HoldTarget(task=task, context_id=task.context_id or call.context_id)

    async def locate_reply(self, exchange: Exchange, noted: A2AReply) -> HoldTarget:
        """Return the task of a response with the caller's ids."""
        task, own_task_id = None, exchange.state.task_id
        if own_task_id is not None:
            task = await self._find_or_create(exchange.subscription, own_task_id, noted.context_id)
        elif noted.task_id is not None:
            task = await self.find_task(exchange.subscription, noted.task_id)
        context_id = noted.context_id if task is None else task.context_id or noted.context_id
        return HoldTarget(task=task, context_id=context_id)

    async def _find_or_create(self, subscription: Subscription, task_id: str, context_id: str | None) -> Task:
        """Return the task with an id that the relay has given; a new one if it is not stored yet."""
        task, owner = await self.find_task(subscription, task_id), subscription.source.name
        return task or Task(
            id=task_id, owner=owner, status=TaskStatus.RUNNING, upstream_id=None, context_id=context_id
        )

    async def find_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the task that the caller sees, by the caller's or the agent's id."""
        return await self._access.find_caller_task(subscription, task_id)


def build_unavailable_task_error(task: Task) -> A2AError:
    """Return the error for a message to a task that the agent cannot get now."""
    if task.has_ended:
        return A2AError("unsupported", HAS_ENDED)
    return A2AError("unsupported", WAITS_FOR_DECISION if task.is_held else NOT_ANSWERED)


class HoldCreator:
    """A `MessageHolder` that also holds agents' requests for input."""

    def __init__(
        self,
        *,
        store: RelayStore,
        desk: ReviewDesk,
        tasks: TaskRepository,
        access: TaskAccess,
        audit_log: AuditLog,
        now: Callable[[], datetime],
        notifier: HoldNotifier,
        timeout: str | None = None,
        max_pending: int = MAX_PENDING_HOLDS,
    ) -> None:
        self.store = store
        self.desk = desk
        self.tasks = tasks
        self.audit_log = audit_log
        self.now = now
        self._notifier = notifier
        self.task_locator = TaskLocator(access)
        self._access = access
        self._timeout = _limit_timeout(timeout, desk.limits.max_timeout_for)
        self._backlog = Backlog(store, limit=max_pending)
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()
        self._jobs: set[asyncio.Task[Json]] = set()

    async def hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> Json:
        """See `MessageHolder`."""
        # Store the audit events before the hold, so that every hold can be traced to its findings.
        async with asyncio.timeout(FLUSH_WITHIN_S):
            await self.audit_log.flush()
        try:
            if isinstance(message, A2ACall):
                return await self._hold_call(leg, replace(exchange, call=message), evaluation)
            return await self._hold_reply(leg, exchange, message, evaluation)
        except TaskOwnedByRelay as owned:
            return self._build_answer(exchange, owned.task)

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        """See `MessageHolder`."""
        subscription = exchange.subscription
        target_id = message.target_task_id if isinstance(message, A2ACall) else message.task_id
        found: set[str] = set()
        for task_id in {exchange.state.task_id, target_id} - {None}:
            task = await self.task_locator.find_task(subscription, str(task_id))
            if task is not None and task.owner == subscription.source.name:
                found.update(task.approved)
        return frozenset(found)

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        """See `MessageHolder`."""
        await self._notifier.notify_observed(exchange, message, evaluation)

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> Json | None:
        """See `MessageHolder`. The policies were evaluated before. A held task is not held twice."""
        if exchange.subscription.sink.input_required != "hold":
            return None
        try:
            return await self._hold_input(exchange, reply)
        except TaskOwnedByRelay as owned:
            return self._build_answer(exchange, owned.task)

    async def find_relay_task(self, subscription: Subscription, task_id: str) -> Task | None:
        """Return the task by either of its ids if the relay answers for it; None if the agent does."""
        task = await self.task_locator.find_task(subscription, task_id)
        return task if task is not None and task.is_kept_by_relay else None

    async def aclose(self) -> None:
        """Wait for the holds that are being created."""
        await asyncio.gather(*self._jobs, return_exceptions=True)

    # Freeze the message

    async def _hold_call(self, leg: Leg, exchange: Exchange, evaluation: Evaluation) -> Json:
        call = exchange.call
        if call.message is None:
            raise A2AError("refused", CANNOT_HOLD)
        target = await self.task_locator.locate_call(exchange)
        pieces = call.pieces()
        masked, findings = mask_and_move(pieces, evaluation.findings)
        held_call = call
        if masked != tuple(pieces):
            document = call.with_texts([piece.text for piece in masked])
            held_call = replace(call, document=document)
        new_hold = NewHold(
            exchange=exchange,
            held_call=held_call,
            frozen=freeze_call(leg, exchange, held_call.document),
            hold_reason=hold_reason_from_evaluation(
                replace(evaluation, findings=findings), exchange.state.released_events
            ),
            pieces=_keep_roles(pieces, masked),
            detection_source="POLICY_ESCALATION",
            target=target,
        )
        return await self._create_hold(new_hold)

    async def _hold_reply(
        self, leg: Leg, exchange: Exchange, reply: A2AReply, evaluation: Evaluation
    ) -> Json:
        pieces = reply.pieces()
        masked, findings = mask_and_move(pieces, evaluation.findings)
        if masked != tuple(pieces):
            reply = replace(reply, document=reply.with_texts([piece.text for piece in masked]))
        new_hold = await self._freeze_reply("response", leg, exchange, reply)
        return await self._create_hold(
            replace(
                new_hold,
                hold_reason=hold_reason_from_evaluation(
                    replace(evaluation, findings=findings), exchange.state.released_events
                ),
                pieces=_keep_roles(pieces, masked),
            )
        )

    async def _hold_input(self, exchange: Exchange, reply: A2AReply) -> Json:
        new_hold = await self._freeze_reply("input", Leg.RESPONSE_TO_SOURCE, exchange, reply)
        task = new_hold.target.task
        if task is None:
            raise A2AError("agent_response", "The agent asked for input without a task.")
        pieces = reply.pieces()
        detection_source: DetectionSource = "PUSH_NOTIFICATION" if exchange.pushed else "AGENT_INPUT_REQUIRED"
        return await self._create_hold(
            replace(
                new_hold,
                pieces=pieces,
                detection_source=detection_source,
                requests=list_request_texts(exchange, reply),
            )
        )

    async def _freeze_reply(
        self, matter: Literal["response", "input"], leg: Leg, exchange: Exchange, reply: A2AReply
    ) -> NewHold:
        """Return a hold of a response with the caller's ids; raise A2AError if it has no task."""
        subscription, state = exchange.subscription, exchange.state
        translated = reply
        if reply.error is None:
            translated = await self._access.translate_reply(
                subscription,
                reply,
                except_task_id=state.task_id,
                forwarded=state.forwarded,
                call=state.writes,
            )
        target = await self.task_locator.locate_reply(exchange, translated)
        if target.task is None and exchange.call.message is None:
            raise A2AError("refused", CANNOT_HOLD)
        agent_task_id = state.upstream_id
        if agent_task_id is None and reply.task_id is not None:
            agent_task_id = reply.task_id
            known = await self.tasks.find(subscription.tenant, subscription.sink.id, "task", agent_task_id)
            agent_task_id = agent_task_id if known is None else known.upstream_id or agent_task_id
        frozen = freeze_reply(
            matter, leg, exchange, translated, upstream_task=agent_task_id, upstream_context=reply.context_id
        )
        return NewHold(
            exchange=exchange,
            held_call=exchange.call,
            frozen=frozen,
            hold_reason=AGENT_INPUT_REASON,
            pieces=(),
            detection_source="POLICY_ESCALATION",
            target=target,
            reply=translated,
        )

    # Create the hold

    async def _create_hold(self, new_hold: NewHold) -> Json:
        """Create the hold. It is completed even if the caller disconnects."""
        job = asyncio.create_task(self._find_or_create_hold(new_hold))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        # After a disconnect nothing awaits the job, so its exception is retrieved here.
        job.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(job)

    async def _find_or_create_hold(self, new_hold: NewHold) -> Json:
        """Open the case and write the hold. A repeated message gets its existing hold."""
        exchange, known = new_hold.exchange, new_hold.target.task
        subscription = exchange.subscription
        key = known.id if known is not None else new_hold.content_digest
        secret = await self.store.get_or_create_secret("relay", random_values.generate_secret())
        async with self._lock(subscription.tenant, subscription.sink.id, key):
            if known is not None:
                known = await self.task_locator.find_task(subscription, known.id) or known
                is_own = known.id == exchange.state.task_id
                if known.status is TaskStatus.HELD or (known.is_kept_by_relay and not is_own):
                    # a concurrent message was held first
                    if not (is_own or new_hold.is_held_by(known, secret)):
                        raise build_unavailable_task_error(known)
                    return self._build_answer(exchange, known)
                new_hold = replace(new_hold, target=replace(new_hold.target, task=known))
            for count in range(MAX_ATTEMPTS):
                hold_id, task = new_hold.derive_ids(secret, count)
                earlier = await self.store.get_hold(hold_id)
                if earlier is None:
                    try:
                        return self._build_answer(
                            exchange, await self._write_within_limit(new_hold, hold_id, task)
                        )
                    except RelayConflict:
                        earlier = await self.store.get_hold(hold_id)
                if earlier is not None and earlier.status == "PENDING":
                    held = await self.task_locator.find_task(subscription, earlier.task_id)
                    return self._build_answer(exchange, held or task)
        raise Unavailable()

    async def _write_within_limit(self, new_hold: NewHold, hold_id: str, task: Task) -> Task:
        """Write a hold and return its task; on BacklogFull, record an audit event and raise."""
        try:
            has_response = new_hold.reply is not None and not new_hold.exchange.pushed
            async with self._backlog.reserve(new_hold.exchange, has_response=has_response):
                return await self._write(new_hold, hold_id, task)
        except BacklogFull:
            self.audit_log.record(new_hold.build_backlog_event(self.audit_log, self._backlog.limit))
            raise

    async def _write(self, new_hold: NewHold, hold_id: str, task: Task) -> Task:
        """Write the case, the hold, its task and its audit events in one transaction."""
        exchange, subscription = new_hold.exchange, new_hold.exchange.subscription
        # The reviewer sees the whole message, so its size is the limit, not that of other cases.
        max_context_bytes = max(
            self.desk.limits.max_context_bytes, MAX_CONTEXT_GROWTH * len(new_hold.frozen.data)
        )
        draft = build_draft(
            new_hold.frozen,
            exchange,
            new_hold.hold_reason,
            new_hold.pieces,
            requests=new_hold.requests,
            data=find_data_parts(new_hold.held_call, new_hold.reply),
            files=new_hold.list_files(),
            task_id=task.id,
            timeout=self._timeout,
            max_context_bytes=max_context_bytes,
        )
        now = self.now()
        metadata = new_hold.hold_reason.metadata
        held = apply(
            task,
            HoldTask(
                new_hold_id=hold_id,
                metadata=metadata,
                agent_task_id=new_hold.frozen.frame.upstream_task,
            ),
        )
        rows = self._build_task_rows(
            subscription, held, is_new_context=new_hold.target.context_id is None, at=now
        )

        def build_hold(case_id: str) -> HoldCreation:
            hold = new_hold.build_row(hold_id, case_id, held, metadata, now)
            events = new_hold.build_events(self.audit_log, hold)
            return HoldCreation(hold=hold, tasks=tuple(rows), events=tuple(events))

        await self.tasks.flush()  # otherwise a queued write of this task would overwrite this one
        try:
            opened = await self.desk.open(
                draft,
                build_case_owner(subscription.tenant),
                subject=Subject(entry_point=RELAY, ref=hold_id),
                hold=build_hold,
                max_context_bytes=max_context_bytes,
            )
        except CaseConflict:
            raise RelayConflict() from None
        self.tasks.adopt(rows)
        hold = new_hold.build_row(hold_id, opened.case_id, held, metadata, now)
        await self._notifier.notify(hold)
        return held

    def _build_task_rows(
        self, subscription: Subscription, task: Task, *, is_new_context: bool, at: datetime
    ) -> list[TaskRow]:
        tenant, agent = subscription.tenant, subscription.sink.id
        rows = [row_from_task(tenant, agent, "task", task, at)]
        if is_new_context and task.context_id is not None:
            context = Task(id=task.context_id, owner=task.owner, upstream_id=None)
            rows.append(row_from_task(tenant, agent, "context", context, at))
        return rows

    def _build_answer(self, exchange: Exchange, task: Task) -> Json:
        call = exchange.call
        view = task_view(task, call.dialect, self.now())
        return build_task_reply(view, call.operation, call.dialect, call.rpc_id)

    def _lock(self, tenant: str, agent: str, name: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant, agent, name), asyncio.Lock())


def _keep_roles(pieces: Sequence[TextPiece], masked: Sequence[Scannable]) -> list[TextPiece]:
    """Return the pieces with their masked texts."""
    return [
        piece if piece.text == other.text else TextPiece(piece.path, other.text, piece.role)
        for piece, other in zip(pieces, masked, strict=True)
    ]


def _limit_timeout(timeout: str | None, maximum: timedelta) -> str | None:
    """Return the timeout of a case, at most the maximum of all cases."""
    return None if timeout is None else format_duration(min(parse_duration(timeout), maximum))
