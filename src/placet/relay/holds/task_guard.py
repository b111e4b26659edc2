"""Hold agents' requests for input, and withdraw holds that callers cancel."""

from collections.abc import Sequence
from contextlib import suppress

from placet.errors import AlreadyClosed, CaseExpired
from placet.ports.hold_store import HoldFilter, HoldStatus
from placet.relay.a2a.errors import A2AError
from placet.relay.holds.hold_service import HoldService, build_case_owner
from placet.relay.holds.resolution import HoldResolver
from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.task_repository import Task

DECIDED = "The task can no longer be canceled: a decision was made. Get the task again."
WITHDRAWN = "The caller canceled the task."
MAX_LISTED = 50
PENDING_FIRST: tuple[HoldStatus | None, ...] = ("PENDING", None)


class TaskGuard:
    """Implements `HoldGuard` with holds."""

    def __init__(self, holds: HoldService, resolver: HoldResolver) -> None:
        self._holds = holds
        self._resolver = resolver

    async def hold_input_request(self, request: InspectionRequest) -> AnswerVerdict | RefuseVerdict | None:
        """See `HoldGuard`."""
        return await self._holds.hold_input_request(request)

    async def withdraw(self, subscription: Subscription, task: Task) -> Task:
        """See `HoldGuard`. The case is cancelled, so that it can no longer be answered."""
        hold = await self._holds.store.get_hold(task.hold_id) if task.hold_id is not None else None
        if hold is None:
            raise A2AError("not_cancelable", DECIDED)
        with suppress(AlreadyClosed, CaseExpired):
            await self._holds.desk.cancel(
                hold.case_id, build_case_owner(subscription.tenant), reason=WITHDRAWN
            )
        hold = await self._resolver.resolve(hold)
        ended = await self._resolver.find_task(hold)
        if hold.status != "WITHDRAWN" or ended is None:
            raise A2AError("not_cancelable", DECIDED)
        return ended

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """See `HoldGuard`. Tasks with pending holds come first, each list newest first."""
        found: dict[str, Task] = {}
        for status in PENDING_FIRST:
            query = HoldFilter(status=status, source=subscription.source.name, sink=subscription.sink.id)
            holds, _ = await self._holds.store.list_holds(subscription.tenant, query, page=0, size=MAX_LISTED)
            for hold in holds:
                task = None if hold.task_id in found else await self._resolver.find_task(hold)
                if task is not None and task.upstream_id is None:
                    found[hold.task_id] = task
        return list(found.values())
