"""Hold agents' requests for input, and withdraw holds that callers cancel."""

from collections.abc import Sequence
from contextlib import suppress

from placet.errors import AlreadyClosed, CaseExpired
from placet.ports.hold_store import HoldFilter, HoldStatus
from placet.relay.a2a.errors import A2AError
from placet.relay.holds.hold_service import HoldService, case_owner
from placet.relay.holds.resolution import HoldResolver
from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.registry.subscriptions import Subscription
from placet.relay.tasks.task_repository import Task

DECIDED = "A decision has just been made; ask for the task again."
WITHDRAWN = "Its caller canceled the task."
MAX_LISTED = 50
PENDING_FIRST: tuple[HoldStatus | None, ...] = ("PENDING", None)


class TaskGuard:
    """A `HoldGuard`."""

    def __init__(self, holds: HoldService, settling: HoldResolver) -> None:
        self._holds = holds
        self._settling = settling

    async def hold_input_request(self, request: InspectionRequest) -> AnswerVerdict | RefuseVerdict | None:
        """See `HoldGuard`."""
        return await self._holds.hold_input_request(request)

    async def withdraw(self, subscription: Subscription, entry: Task) -> Task:
        """See `HoldGuard`; the case is cancelled, and nobody can answer it any more."""
        hold = await self._holds.store.get_hold(entry.hold_id) if entry.hold_id is not None else None
        if hold is None:
            raise A2AError("not_cancelable", DECIDED)
        with suppress(AlreadyClosed, CaseExpired):
            await self._holds.desk.cancel(hold.case_id, case_owner(subscription.tenant), reason=WITHDRAWN)
        hold = await self._settling.resolve(hold)
        ended = await self._settling.entry(hold)
        if hold.status != "WITHDRAWN" or ended is None:
            raise A2AError("not_cancelable", DECIDED)
        return ended

    async def list_relay_only_tasks(self, subscription: Subscription) -> Sequence[Task]:
        """See `HoldGuard`; the newest of those that wait, then the newest of all."""
        found: dict[str, Task] = {}
        for status in PENDING_FIRST:
            asked = HoldFilter(status=status, source=subscription.source.name, sink=subscription.sink.id)
            holds, _ = await self._holds.store.list_holds(subscription.tenant, asked, page=0, size=MAX_LISTED)
            for hold in holds:
                entry = None if hold.task_id in found else await self._settling.entry(hold)
                if entry is not None and entry.upstream_id is None:
                    found[hold.task_id] = entry
        return list(found.values())
