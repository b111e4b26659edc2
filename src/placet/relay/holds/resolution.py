"""Record the decision about a held message exactly once."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from placet.cases.case import Case
from placet.desk.access import actor_of
from placet.errors import RelayConflict, Unavailable
from placet.ports.audit_store import AuditRow
from placet.ports.hold_store import HoldRow
from placet.ports.task_store import TaskRow
from placet.protocol.poll import Status
from placet.relay.a2a.dialects import State
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.holds.hold_body import HoldBody, Resolution, ResolutionAction, decode_hold_body
from placet.relay.holds.hold_service import case_owner
from placet.relay.holds.hold_storage import CaseHoldStore
from placet.relay.holds.message_holder import digest_text
from placet.relay.registry.subscriptions import RegisteredAgent, RegisteredCaller, Subscription
from placet.relay.tasks.reasons import HitlRejected, Timeout, reason_to_metadata
from placet.relay.tasks.relay_tasks import RelayTasks
from placet.relay.tasks.task_repository import Task, TaskEnding, TaskRepository, row_from_task

MAX_ATTEMPTS = 16
MAX_APPROVED_DIGESTS = 5_000
RESOLUTION_MESSAGES: dict[ResolutionAction, str] = {
    "REJECTED": "A person rejected this message.",
    "EXPIRED": "Nobody decided about this message in time.",
    "WITHDRAWN": "The message was withdrawn before anyone decided about it.",
}


class HoldResolver:
    """Changes holds, each in one transaction with the task and the audit event."""

    def __init__(
        self,
        *,
        store: CaseHoldStore,
        book: TaskRepository,
        own: RelayTasks,
        trail: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self._book = book
        self._own = own
        self._trail = trail
        self._now = now

    async def resolve(self, hold: HoldRow) -> HoldRow:
        """The hold as its case has decided; unchanged while that is open."""
        for _ in range(MAX_ATTEMPTS):
            if hold.status != "PENDING":
                return hold
            case = await self.store.get_case(hold.case_id)
            if case is None or case.live:
                return hold
            try:
                return await self._resolve(hold, await self._resolution(case, hold))
            except RelayConflict:
                again = await self.store.get_hold(hold.id)
                hold = hold if again is None else again
        raise Unavailable()

    async def finish(self, hold: HoldRow, entries: list[Task], reply: A2AReply | None = None) -> HoldRow:
        """All that follows from the decision was done: these are the tasks it leaves.

        `reply` is what the caller is told of a message that went on.
        """
        body = replace(decode_hold_body(hold), done_at=self._now())
        rows = [self._row(hold, entry) for entry in entries]
        events = [] if reply is None else [self._build_resumed_event(hold, body, reply)]
        return await self._change(hold, body, rows, events, tell=True)

    async def fail(self, hold: HoldRow, words: str) -> HoldRow:
        """What was approved cannot be done; the caller and the audit are told so."""
        body = replace(decode_hold_body(hold), done_at=self._now(), failure=words)
        entry = await self.entry(hold)
        rows = []
        if entry is not None and entry.hold_id == hold.id:
            ending = TaskEnding(dialect=body.frame.dialect, failure=words)
            rows.append(self._row(hold, replace(entry, hold_id=None, hold_metadata=None, ending=ending)))
        event = self._event(hold, body, "ERROR", words, "failed", {})
        return await self._change(hold, body, rows, [event], tell=True)

    async def note(self, hold: HoldRow, body: HoldBody) -> HoldRow:
        """Write down how far it got."""
        return await self._change(hold, body, [], [], tell=False)

    async def entry(self, hold: HoldRow) -> Task | None:
        """The task of a hold, as its caller names it."""
        return await self._book.find(hold.tenant, hold.sink, "task", hold.task_id)

    # The decision

    async def _resolution(self, case: Case, hold: HoldRow) -> Resolution:
        closing = (await self.store.list_events(case.id))[-1]
        action: ResolutionAction = "EXPIRED"
        message: Any = None
        by: str | None = None
        if case.status is Status.COMPLETED and case.decision is not None:
            decision = case.decision
            action = "APPROVED" if decision.result.action == "approve" else "REJECTED"
            message = decision.result.data.get("message")
            by = decision.responded_by.name if decision.responded_by is not None else None
        elif case.status is Status.CANCELLED:
            withdrawn = closing.actor == actor_of(case_owner(hold.tenant))
            action = "WITHDRAWN" if withdrawn else "REJECTED"
            message = case.reason
        return Resolution(
            id=f"{hold.id}-resolution",
            action=action,
            message=message if isinstance(message, str) and message else None,
            resolved_by=None if action == "EXPIRED" else by or closing.actor,
            created_at=case.closed_at or self._now(),
        )

    async def _resolve(self, hold: HoldRow, resolution: Resolution) -> HoldRow:
        body = replace(decode_hold_body(hold), resolution=resolution)
        entry = await self.entry(hold)
        rows = []
        if entry is not None and entry.hold_id == hold.id:
            rows.append(self._row(hold, _resolve_task(entry, hold, body, resolution)))
        approved = resolution.action == "APPROVED"
        words = "A person approved this message." if approved else RESOLUTION_MESSAGES[resolution.action]
        event = self._event(
            hold,
            body,
            "LOG" if approved else "BLOCK",
            words,
            "working" if approved else "canceled",
            {"resolution": resolution.action, "resolvedBy": resolution.resolved_by}
            | ({"message": resolution.message} if resolution.message else {}),
        )
        moved = replace(hold, status=resolution.action, resolved_at=resolution.created_at)
        return await self._change(moved, body, rows, [event], tell=not approved)

    # Writing

    async def _change(
        self, hold: HoldRow, body: HoldBody, rows: list[TaskRow], events: list[AuditRow], *, tell: bool
    ) -> HoldRow:
        changed = replace(hold, rev=hold.rev + 1, body=msgspec.json.encode(body))
        await self._book.flush()  # or an earlier entry of these names would come after this
        await self.store.update_hold(changed, tasks=rows, events=events)
        self._book.adopt(rows)
        if tell:
            self._own.wake(hold.tenant, hold.sink, hold.task_id)
        return changed

    def _row(self, hold: HoldRow, entry: Task) -> TaskRow:
        return row_from_task(hold.tenant, hold.sink, "task", entry, self._now())

    def _build_resumed_event(self, hold: HoldRow, body: HoldBody, reply: A2AReply) -> AuditRow:
        """The message in the audit that went on, without its content: that stands where it was held."""
        failed = reply.error is not None
        released = body.frame.matter == "response"
        return self._event(
            hold,
            body,
            "ERROR" if failed else "LOG",
            "The held answer was released." if released else "The held message was answered.",
            reply.state,
            {"detectionSource": hold.detection_source},
            type="COMMUNICATION_AUDIT",
            payload={"version": body.frame.dialect.version, "stage": "RESUMED"},
        )

    def _event(
        self,
        hold: HoldRow,
        body: HoldBody,
        action: str,
        words: str,
        state: State | None,
        more: dict[str, Any],
        *,
        type: str = "HITL_RESOLUTION",
        payload: dict[str, Any] | None = None,
    ) -> AuditRow:
        return self._trail.row(
            type,
            subscription_from_hold(hold, body),
            correlation_id=hold.correlation_id,
            action=action,
            transport="JSONRPC" if body.frame.dialect.rpc else "REST",
            message=words,
            task_id=hold.task_id,
            context_id=body.context_id,
            message_id=body.message_id,
            task_state=state,
            payload=payload,
            metadata={"approvalId": hold.id, "caseId": hold.case_id, "digest": body.digest, **more},
        )


def subscription_from_hold(hold: HoldRow, body: HoldBody) -> Subscription:
    """Who spoke with whom, also where one of them is no longer registered; not to be called with."""
    return Subscription(
        source=RegisteredCaller(name=hold.source, kind=body.source_kind),
        sink=RegisteredAgent(id=hold.sink, tenant=hold.tenant, url=""),
        tenant=hold.tenant,
    )


def build_rejection_metadata(body: HoldBody) -> dict[str, Any]:
    """What callers see of a message that a person refused; without a policy where the agent had asked."""
    policy = body.policy
    return reason_to_metadata(
        HitlRejected(
            policy_name=None if policy is None else policy.name,
            policy_version=None if policy is None else policy.version,
            policy_level=None if policy is None else policy.level,
        )
    )


def _resolve_task(entry: Task, hold: HoldRow, body: HoldBody, resolution: Resolution) -> Task:
    if resolution.action == "APPROVED":
        said = (digest_text(resolution.message),) if resolution.message else ()
        approved = tuple(dict.fromkeys((*entry.approved, *body.texts, *said)))[-MAX_APPROVED_DIGESTS:]
        # It goes on: from now on the agent is waited for, not a person.
        metadata = reason_to_metadata(Timeout())
        return replace(entry, hold_id=hold.id, hold_metadata=metadata, approved=approved)
    metadata = {} if resolution.action == "WITHDRAWN" else build_rejection_metadata(body)
    ending = TaskEnding(
        dialect=body.frame.dialect, failure=RESOLUTION_MESSAGES[resolution.action], metadata=metadata
    )
    return replace(entry, hold_id=None, hold_metadata=None, ending=ending)
