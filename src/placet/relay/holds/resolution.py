"""Record the decision about a held message exactly once."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from placet.cases.case import Case
from placet.desk.review_desk import ReviewDesk
from placet.errors import AlreadyClosed, CaseExpired, RelayConflict, Unavailable
from placet.ports.audit_store import AuditRow
from placet.ports.hold_store import HoldFilter, HoldRow, HoldStatus
from placet.ports.task_store import TaskRow
from placet.protocol.poll import Status
from placet.relay.a2a.dialects import TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.hold import HoldBody, Resolution, ResolutionAction, decode_hold_body
from placet.relay.holds.case_draft import build_case_owner
from placet.relay.holds.hold_storage import CaseHoldStore
from placet.relay.policy.finding import digest_text
from placet.relay.task_reasons import HitlExpired, HitlRejected, Timeout, reason_to_metadata
from placet.relay.tasks.task_repository import Task, TaskEnding, TaskRepository, row_from_task
from placet.relay.tasks.task_waiters import TaskWaiters
from placet.relay.tenants import RegisteredAgent, RegisteredCaller, Subscription

DECIDED = "The task can no longer be canceled: a decision was made. Get the task again."
WITHDRAWN = "The caller canceled the task."
MAX_ATTEMPTS = 16
MAX_LISTED = 50
PENDING_FIRST: tuple[HoldStatus | None, ...] = ("PENDING", None)
MAX_APPROVED_DIGESTS = 5_000
RESOLUTION_MESSAGES: dict[ResolutionAction, str] = {
    "REJECTED": "A person rejected this message.",
    "EXPIRED": "The message expired before a person decided about it.",
    "WITHDRAWN": "The message was withdrawn before a person decided about it.",
}

ENDING_REASONS: dict[ResolutionAction, type[HitlRejected | HitlExpired]] = {
    "REJECTED": HitlRejected,
    "EXPIRED": HitlExpired,
}


class HoldResolver:
    """Changes holds. Each change is one transaction with its task and its audit event.

    It is the `HeldTasks` of calls that list or cancel tasks.
    """

    def __init__(
        self,
        *,
        store: CaseHoldStore,
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

    async def resolve(self, hold: HoldRow) -> HoldRow:
        """Resolve the hold as its case was decided, and return it; unchanged while the case is open."""
        for _ in range(MAX_ATTEMPTS):
            if hold.status != "PENDING":
                return hold
            case = await self.store.get_case(hold.case_id)
            if case is None or case.live:
                return hold
            try:
                return await self._resolve(hold, await self._build_resolution(case, hold))
            except RelayConflict:
                latest = await self.store.get_hold(hold.id)
                hold = hold if latest is None else latest
        raise Unavailable()

    async def finish(self, hold: HoldRow, tasks: list[Task], reply: A2AReply | None = None) -> HoldRow:
        """Record that the decision was carried out, with these changed tasks.

        `reply` is the response to a resumed message.
        """
        body = replace(decode_hold_body(hold), done_at=self._now())
        rows = [self._build_task_row(hold, task) for task in tasks]
        events = [] if reply is None else [self._build_resumed_event(hold, body, reply)]
        return await self._change(hold, body, rows, events, wake=True)

    async def fail(self, hold: HoldRow, message: str) -> HoldRow:
        """Record that the decision cannot be carried out, and end the task with this failure."""
        body = replace(decode_hold_body(hold), done_at=self._now(), failure=message)
        task = await self.find_task(hold)
        rows = []
        if task is not None and task.hold_id == hold.id:
            ending = TaskEnding(dialect=body.frame.dialect, failure=message)
            ended = replace(task, hold_id=None, hold_metadata=None, ending=ending)
            rows.append(self._build_task_row(hold, ended))
        event = self._build_event(hold, body, "ERROR", message, "failed", {})
        return await self._change(hold, body, rows, [event], wake=True)

    async def save_progress(self, hold: HoldRow, body: HoldBody) -> HoldRow:
        """Store the body of a hold that is being resumed."""
        return await self._change(hold, body, [], [], wake=False)

    async def find_task(self, hold: HoldRow) -> Task | None:
        """Return the task of a hold by the caller's id, or None."""
        return await self._tasks.find(hold.tenant, hold.sink, "task", hold.task_id)

    async def withdraw(self, subscription: Subscription, task: Task) -> Task:
        """See `HeldTasks`. The case is cancelled, so that it can no longer be answered."""
        hold = await self.store.get_hold(task.hold_id) if task.hold_id is not None else None
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
                if task is not None and task.upstream_id is None:
                    found[hold.task_id] = task
        return list(found.values())

    # Decide

    async def _build_resolution(self, case: Case, hold: HoldRow) -> Resolution:
        closing = (await self.store.list_events(case.id))[-1]
        action: ResolutionAction = "EXPIRED"
        message: Any = None
        reviewer: str | None = None
        if case.status is Status.COMPLETED and case.decision is not None:
            decision = case.decision
            action = "APPROVED" if decision.result.action == "approve" else "REJECTED"
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

    async def _resolve(self, hold: HoldRow, resolution: Resolution) -> HoldRow:
        body = replace(decode_hold_body(hold), resolution=resolution)
        task = await self.find_task(hold)
        rows = []
        if task is not None and task.hold_id == hold.id:
            rows.append(self._build_task_row(hold, _resolve_task(task, hold, body, resolution)))
        is_approved = resolution.action == "APPROVED"
        message = "A person approved this message." if is_approved else RESOLUTION_MESSAGES[resolution.action]
        event = self._build_event(
            hold,
            body,
            "LOG" if is_approved else "BLOCK",
            message,
            "working" if is_approved else "canceled",
            {"resolution": resolution.action, "resolvedBy": resolution.resolved_by}
            | ({"message": resolution.message} if resolution.message else {}),
        )
        resolved = replace(hold, status=resolution.action, resolved_at=resolution.created_at)
        return await self._change(resolved, body, rows, [event], wake=not is_approved)

    # Write

    async def _change(
        self, hold: HoldRow, body: HoldBody, rows: list[TaskRow], events: list[AuditRow], *, wake: bool
    ) -> HoldRow:
        changed = replace(hold, rev=hold.rev + 1, body=msgspec.json.encode(body))
        await self._tasks.flush()  # otherwise a queued write of this task would overwrite this one
        await self.store.update_hold(changed, tasks=rows, events=events)
        self._tasks.adopt(rows)
        if wake:
            self._waiters.wake(hold.tenant, hold.sink, hold.task_id)
        return changed

    def _build_task_row(self, hold: HoldRow, task: Task) -> TaskRow:
        return row_from_task(hold.tenant, hold.sink, "task", task, self._now())

    def _build_resumed_event(self, hold: HoldRow, body: HoldBody, reply: A2AReply) -> AuditRow:
        """Return the audit event of a resumed message. The event of the hold has the content."""
        has_failed = reply.error is not None
        is_response = body.frame.matter == "response"
        return self._build_event(
            hold,
            body,
            "ERROR" if has_failed else "LOG",
            "The held response was released." if is_response else "The agent responded to the held message.",
            reply.state,
            {"detectionSource": hold.detection_source},
            type="COMMUNICATION_AUDIT",
            payload={"version": body.frame.dialect.version, "stage": "RESUMED"},
        )

    def _build_event(
        self,
        hold: HoldRow,
        body: HoldBody,
        action: str,
        message: str,
        state: TaskState | None,
        metadata: dict[str, Any],
        *,
        type: str = "HITL_RESOLUTION",
        payload: dict[str, Any] | None = None,
    ) -> AuditRow:
        return self._audit_log.build_event(
            type,
            subscription_from_hold(hold, body),
            correlation_id=hold.correlation_id,
            action=action,
            transport="JSONRPC" if body.frame.dialect.rpc else "REST",
            message=message,
            task_id=hold.task_id,
            context_id=body.context_id,
            message_id=body.message_id,
            task_state=state,
            payload=payload,
            metadata={"approvalId": hold.id, "caseId": hold.case_id, "digest": body.digest, **metadata},
        )


def subscription_from_hold(hold: HoldRow, body: HoldBody) -> Subscription:
    """Return caller and agent of a hold for records, even if they are no longer registered. Has no URL."""
    return Subscription(
        source=RegisteredCaller(name=hold.source, kind=body.source_kind),
        sink=RegisteredAgent(id=hold.sink, tenant=hold.tenant, url=""),
        tenant=hold.tenant,
    )


def build_ending_metadata(body: HoldBody, reason: type[HitlRejected | HitlExpired]) -> dict[str, Any]:
    """Return the task metadata of a message that was not approved.

    It names no policy if the agent asked for input.
    """
    policy = body.policy
    return reason_to_metadata(
        reason(
            policy_name=None if policy is None else policy.name,
            policy_version=None if policy is None else policy.version,
            policy_level=None if policy is None else policy.level,
        )
    )


def _resolve_task(task: Task, hold: HoldRow, body: HoldBody, resolution: Resolution) -> Task:
    if resolution.action == "APPROVED":
        note = (digest_text(resolution.message),) if resolution.message else ()
        approved = tuple(dict.fromkeys((*task.approved, *body.text_digests, *note)))[-MAX_APPROVED_DIGESTS:]
        metadata = reason_to_metadata(Timeout())  # the task now waits for the agent, not for a person
        return replace(task, hold_id=hold.id, hold_metadata=metadata, approved=approved)
    reason = ENDING_REASONS.get(resolution.action)
    metadata = {} if reason is None else build_ending_metadata(body, reason)
    ending = TaskEnding(
        dialect=body.frame.dialect, failure=RESOLUTION_MESSAGES[resolution.action], metadata=metadata
    )
    return replace(task, hold_id=None, hold_metadata=None, ending=ending)
