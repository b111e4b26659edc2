"""Record the decision about a held message exactly once."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from placet.cases.case import Case
from placet.desk.review_desk import ReviewDesk
from placet.errors import AlreadyClosed, CaseExpired, CaseNotFound, ContentAltered, RelayConflict, Unavailable
from placet.ports.audit_store import AuditRow
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStatus
from placet.ports.relay_store import RelayStore
from placet.ports.task_store import TaskRow
from placet.protocol.poll import Status
from placet.relay.a2a.dialects import TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.hold import (
    ApproveHold,
    FailHold,
    FinishHold,
    Hold,
    HoldCommand,
    HoldStage,
    RefuseHold,
    Resolution,
    ResolutionAction,
    hold_from_row,
)
from placet.relay.hold import apply as apply_to_hold
from placet.relay.holds.review_case import CONTEXT_FIELD, build_case_owner, format_label
from placet.relay.policy.finding import digest_text
from placet.relay.task import (
    ApproveTask,
    FailTask,
    HoldOutcome,
    RefuseTask,
    RelayReason,
    Task,
    TaskEnding,
    apply,
    build_reason_metadata,
    row_from_task,
)
from placet.relay.tasks.relay_tasks import TaskWaiters
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.tenants import RegisteredAgent, RegisteredCaller, Subscription

APPROVE = "approve"
DECIDED = "The task can no longer be canceled: a decision was made. Get the task again."
WITHDRAWN = "The caller canceled the task."
MAX_ATTEMPTS = 16
MAX_LISTED = 50
PENDING_FIRST: tuple[HoldStatus | None, ...] = ("PENDING", None)
RESOLUTION_MESSAGES: dict[ResolutionAction, str] = {
    "REJECTED": "A person rejected this message.",
    "EXPIRED": "The message expired before a person decided about it.",
    "WITHDRAWN": "The message was withdrawn before a person decided about it.",
}

ENDING_REASONS: dict[ResolutionAction, RelayReason] = {
    "REJECTED": "HITL_REJECTED",
    "EXPIRED": "HITL_EXPIRED",
}


class HoldResolver:
    """Changes holds. Each change is one transaction with its task and its audit event.

    It is the `HeldTasks` of calls that list or cancel tasks.
    """

    def __init__(
        self,
        *,
        store: RelayStore,
        desk: ReviewDesk,
        tasks: TaskRepository,
        waiters: TaskWaiters,
        audit_log: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self._tasks = tasks
        self._desk = desk
        self._waiters = waiters
        self._audit_log = audit_log
        self._now = now

    async def resolve(self, row: HoldRow) -> HoldRow:
        """Resolve the hold as its case was decided, and return it; unchanged while the case is open."""
        for _ in range(MAX_ATTEMPTS):
            hold = hold_from_row(row)
            if hold.stage is not HoldStage.WAITING:
                return row
            case = await self._find_case(row)
            if case is None or case.live:
                return row
            try:
                return (await self._resolve(hold, await self._build_resolution(case, row))).row
            except RelayConflict:
                row = await self.store.get_hold(row.id) or row
        raise Unavailable()

    async def get(self, hold_id: str) -> Hold | None:
        """Return a hold, or None if it does not exist."""
        row = await self.store.get_hold(hold_id)
        return None if row is None else hold_from_row(row)

    async def advance(self, hold: Hold, command: HoldCommand) -> Hold:
        """Apply a command to the stored hold that changes nothing but the hold, and return it."""
        return await self._change(await self.get(hold.id) or hold, command, None, [], wake=False)

    async def finish(
        self, hold: Hold, command: HoldOutcome | None = None, reply: A2AReply | None = None
    ) -> Hold:
        """Record that the decision was carried out, and apply the command to the task.

        `reply` is the response to a resumed message.
        """
        hold = await self.get(hold.id) or hold
        events = [] if reply is None else [self._build_resumed_event(hold, reply)]
        return await self._change(hold, FinishHold(at=self._now()), command, events, wake=True)

    async def fail(self, hold: Hold, message: str) -> Hold:
        """Record that the decision cannot be carried out, and end the task with this failure."""
        hold = await self.get(hold.id) or hold
        ending = TaskEnding(dialect=hold.body.frame.dialect, failure=message)
        event = self._build_event(hold, "ERROR", message, "failed", {})
        return await self._change(
            hold,
            FailHold(at=self._now(), message=message),
            FailTask(hold_id=hold.id, ending=ending),
            [event],
            wake=True,
        )

    async def find_task(self, hold: HoldRow) -> Task | None:
        """Return the task of a hold by the caller's id, or None."""
        return await self._tasks.find(hold.tenant, hold.sink, "task", hold.task_id)

    async def withdraw(self, subscription: Subscription, task: Task) -> Task:
        """See `HeldTasks`. The case is cancelled, so that it can no longer be answered."""
        hold = await self.store.get_hold(task.hold_id) if task.hold_id else None
        if hold is None:
            raise A2AError("not_cancelable", DECIDED)
        with suppress(AlreadyClosed, CaseExpired):
            await self._desk.cancel(hold.case_id, build_case_owner(subscription.tenant), reason=WITHDRAWN)
        hold = await self.resolve(hold)
        ended = await self.find_task(hold)
        if hold.status != "WITHDRAWN" or ended is None:
            raise A2AError("not_cancelable", DECIDED)
        return ended

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """See `HeldTasks`. Tasks with pending holds come first, each list newest first."""
        found: dict[str, Task] = {}
        for status in PENDING_FIRST:
            query = HoldFilter(status=status, source=subscription.source.name, sink=subscription.sink.id)
            holds, _ = await self.store.list_holds(subscription.tenant, query, page=0, size=MAX_LISTED)
            for hold in holds:
                task = None if hold.task_id in found else await self.find_task(hold)
                if task is not None and not task.is_known_to_agent:
                    found[hold.task_id] = task
        return list(found.values())

    # Decide

    async def is_approved_as_shown(self, hold: Hold) -> bool:
        """Return whether digest, caller and agent of the hold match the offer that a person has approved.

        The desk verifies the offer itself. Of an erased case nothing is left to compare; a case that does
        not exist approves nothing.
        """
        row, case = hold.row, await self._find_case(hold.row)
        if case is None or case.altered_at is not None:
            return False
        try:
            case, offer = await self._desk.get_case_and_offer(row.case_id)
        except CaseNotFound:
            return case.erased_at is not None
        except ContentAltered:
            return False
        if case.decision is None or case.decision.result.action != APPROVE:
            return False
        shown = offer.context.get(CONTEXT_FIELD)
        stored = {
            "digest": hold.body.digest,
            "caller": format_label(row.source),
            "agent": format_label(row.sink),
        }
        return not isinstance(shown, dict) or all(shown.get(name) == value for name, value in stored.items())

    async def _find_case(self, hold: HoldRow) -> Case | None:
        try:
            return await self._desk.get_owned_case(hold.case_id, build_case_owner(hold.tenant))
        except CaseNotFound:
            return None

    async def _build_resolution(self, case: Case, hold: HoldRow) -> Resolution:
        closing = (await self._desk.list_events(case.id))[-1]
        action: ResolutionAction = "EXPIRED"
        message: Any = None
        reviewer: str | None = None
        if case.status is Status.COMPLETED and case.decision is not None:
            decision = case.decision
            action = "APPROVED" if decision.result.action == APPROVE else "REJECTED"
            message = decision.result.data.get("message")
            reviewer = decision.responded_by.name if decision.responded_by is not None else None
        elif case.status is Status.CANCELLED:
            action = "WITHDRAWN"
            message = case.reason
        return Resolution(
            id=f"{hold.id}-resolution",
            action=action,
            message=message if isinstance(message, str) and message else None,
            resolved_by=None if action == "EXPIRED" else reviewer or closing.actor,
            created_at=case.closed_at or self._now(),
        )

    async def _resolve(self, hold: Hold, resolution: Resolution) -> Hold:
        action, frame = resolution.action, hold.body.frame
        facts = {"resolution": action, "resolvedBy": resolution.resolved_by}
        facts |= {"message": resolution.message} if resolution.message else {}
        if action == "APPROVED":
            note = (digest_text(resolution.message),) if resolution.message else ()
            return await self._change(
                hold,
                ApproveHold(resolution=resolution),
                ApproveTask(hold_id=hold.id, digests=(*hold.body.text_digests, *note)),
                [self._build_event(hold, "LOG", "A person approved this message.", "working", facts)],
                wake=False,
            )
        message, reason = RESOLUTION_MESSAGES[action], ENDING_REASONS.get(action)
        metadata = {} if reason is None else build_reason_metadata(reason, hold.body.policy)
        ending = TaskEnding(dialect=frame.dialect, failure=message, metadata=metadata)
        return await self._change(
            hold,
            RefuseHold(resolution=resolution),
            RefuseTask(hold_id=hold.id, ending=ending),
            [self._build_event(hold, "BLOCK", message, "canceled", facts)],
            wake=True,
        )

    # Write

    async def _change(
        self,
        hold: Hold,
        command: HoldCommand,
        task_command: HoldOutcome | None,
        events: list[AuditRow],
        *,
        wake: bool,
    ) -> Hold:
        """Write the hold, its task and the audit events of one step in one transaction."""
        changed = apply_to_hold(hold, command)
        if changed is hold:
            return hold
        rows = await self._change_task(hold, task_command)
        await self._tasks.flush()  # otherwise a queued write of this task would overwrite this one
        await self.store.update_hold(changed.row, tasks=rows, events=events)
        self._tasks.adopt(rows)
        if wake:
            self._waiters.wake(hold.row.tenant, hold.row.sink, hold.row.task_id)
        return changed

    async def _change_task(self, hold: Hold, command: HoldOutcome | None) -> list[TaskRow]:
        task = None if command is None else await self.find_task(hold.row)
        if task is None or command is None:
            return []
        changed = apply(task, command)
        return [] if changed is task else [self._build_task_row(hold.row, changed)]

    def _build_task_row(self, hold: HoldRow, task: Task) -> TaskRow:
        return row_from_task(hold.tenant, hold.sink, "task", task, self._now())

    def _build_resumed_event(self, hold: Hold, reply: A2AReply) -> AuditRow:
        """Return the audit event of a resumed message. The event of the hold has the content."""
        has_failed = reply.error is not None
        is_response = hold.body.frame.matter == "response"
        return self._build_event(
            hold,
            "ERROR" if has_failed else "LOG",
            "The held response was released." if is_response else "The agent responded to the held message.",
            reply.state,
            {"detectionSource": hold.row.detection_source},
            type="COMMUNICATION_AUDIT",
            payload={"version": hold.body.frame.dialect.version, "stage": "RESUMED"},
        )

    def _build_event(
        self,
        hold: Hold,
        action: str,
        message: str,
        state: TaskState | None,
        metadata: dict[str, Any],
        *,
        type: str = "HITL_RESOLUTION",
        payload: dict[str, Any] | None = None,
    ) -> AuditRow:
        row, body = hold.row, hold.body
        return self._audit_log.build_event(
            type,
            subscription_from_hold(hold),
            correlation_id=row.correlation_id,
            action=action,
            transport="JSONRPC" if body.frame.dialect.rpc else "REST",
            message=message,
            task_id=row.task_id,
            context_id=body.context_id,
            message_id=body.message_id,
            task_state=state,
            payload=payload,
            metadata={"approvalId": hold.id, "caseId": row.case_id, "digest": body.digest, **metadata},
        )


def subscription_from_hold(hold: Hold) -> Subscription:
    """Return caller and agent of a hold for records, even if they are no longer registered. Has no URL."""
    row = hold.row
    return Subscription(
        source=RegisteredCaller(name=row.source, kind=hold.body.source_kind),
        sink=RegisteredAgent(id=row.sink, tenant=row.tenant, url=""),
        tenant=row.tenant,
    )
