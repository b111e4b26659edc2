"""What callers and agents do to tasks that wait for people: agents ask for input, callers withdraw."""

from collections.abc import Sequence
from contextlib import suppress

from placet.errors import AlreadyClosed, CaseExpired
from placet.ports.hold_store import HoldFilter, HoldStatus
from placet.relay.a2a.problems import A2AProblem
from placet.relay.holds.holds import Holds, owner_of
from placet.relay.holds.settling import Settling
from placet.relay.judging.inspection import Answered, Exchange, Refused
from placet.relay.membership.registry import Subscription
from placet.relay.tasks.taskbook import Entry

DECIDED = "A decision has just been made; ask for the task again."
WITHDRAWN = "Its caller canceled the task."
MOST_LISTED = 50
PENDING_FIRST: tuple[HoldStatus | None, ...] = ("PENDING", None)


class TaskGuard:
    """A `Guard`."""

    def __init__(self, holds: Holds, settling: Settling) -> None:
        self._holds = holds
        self._settling = settling

    async def asks(self, exchange: Exchange) -> Answered | Refused | None:
        """See `Guard`."""
        return await self._holds.asks(exchange)

    async def withdraw(self, subscription: Subscription, entry: Entry) -> Entry:
        """See `Guard`; the case is cancelled, and nobody can answer it any more."""
        hold = await self._holds.store.get_hold(entry.mask.hold_id) if entry.mask is not None else None
        if hold is None:
            raise A2AProblem("not_cancelable", DECIDED)
        with suppress(AlreadyClosed, CaseExpired):
            await self._holds.desk.cancel(hold.case_id, owner_of(subscription.tenant), reason=WITHDRAWN)
        hold = await self._settling.settle(hold)
        ended = await self._settling.entry(hold)
        if hold.status != "WITHDRAWN" or ended is None:
            raise A2AProblem("not_cancelable", DECIDED)
        return ended

    async def untold(self, subscription: Subscription) -> Sequence[Entry]:
        """See `Guard`; the newest of those that wait, then the newest of all."""
        found: dict[str, Entry] = {}
        for status in PENDING_FIRST:
            asked = HoldFilter(status=status, source=subscription.source.name, sink=subscription.sink.id)
            holds, _ = await self._holds.store.list_holds(
                subscription.tenant, asked, page=0, size=MOST_LISTED
            )
            for hold in holds:
                entry = None if hold.task_id in found else await self._settling.entry(hold)
                if entry is not None and entry.upstream_id is None:
                    found[hold.task_id] = entry
        return list(found.values())
