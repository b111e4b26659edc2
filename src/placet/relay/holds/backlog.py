"""Limit how many held messages of one caller may be pending."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.ports.hold_store import HoldFilter, HoldStore
from placet.relay.a2a.errors import A2AError
from placet.relay.hold import hold_from_row
from placet.relay.inspection.message_inspector import InspectionRequest

LIMIT_REACHED = "{limit:,} messages of this caller wait for a decision, which is the limit."
SEND_LATER = f"{LIMIT_REACHED} Send this one again when some are decided."
FETCH_LATER = f"{LIMIT_REACHED} The agent's response also needs one; fetch it again when some are decided."


class BacklogFull(A2AError):
    """A message is refused because its caller has too many pending holds."""

    def __init__(self, request: InspectionRequest, limit: int) -> None:
        # After "busy" a caller sends the same call again. If the agent has already responded, it would do
        # its work twice, so the call is refused. An agent that pushes should push again.
        has_response = request.reply is not None and not request.pushed
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
    async def reserve(self, request: InspectionRequest) -> AsyncIterator[None]:
        """Reserve one more hold while it is written; raise BacklogFull if the limit is reached.

        Earlier reservations count until they end, even if their hold is already in the store. So two
        concurrent calls may both be refused the last hold, but never both get it.
        """
        caller = request.subscription.tenant, request.subscription.source.name
        earlier = self._reserved[caller]
        self._reserved[caller] += 1
        try:
            if earlier + await self._count_pending(*caller) >= self.limit and not await self._was_approved(
                request
            ):
                raise BacklogFull(request, self.limit)
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

    async def _was_approved(self, request: InspectionRequest) -> bool:
        """Return whether the message was approved and is held again. It has been counted once already."""
        if request.task_id is None:
            return False
        approved = HoldFilter(status="APPROVED", task_id=request.task_id)
        found, _ = await self._store.list_holds(request.subscription.tenant, approved, page=0, size=1)
        return any(not hold_from_row(row).stage.is_final for row in found)
