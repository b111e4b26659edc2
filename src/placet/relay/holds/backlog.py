"""Limit how many held messages of one caller may be pending."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.ports.hold_store import HoldFilter, HoldStore
from placet.relay.a2a.errors import A2AError
from placet.relay.holds.hold_body import decode_hold_body
from placet.relay.inspection.message_inspector import InspectionRequest

FULL = "{most:,} messages of this caller wait for a person already"
SEND_LATER = f"{FULL}; send this one again when some of them are decided."
ASK_LATER = f"{FULL}, and this answer would too; ask for it again when some of them are decided."


class BacklogFull(A2AError):
    """A message is refused because its caller has too many pending holds."""

    def __init__(self, request: InspectionRequest, most: int) -> None:
        # Whoever is told that the relay is busy sends the same again, and an agent that has answered would
        # do its work again. An agent that pushes is to push again.
        answered = request.reply is not None and not request.pushed
        super().__init__(
            "refused" if answered else "busy",
            (ASK_LATER if answered else SEND_LATER).format(most=most),
            data={"max_pending_holds": most},
        )


class Backlog:
    """Counts pending holds in the store, and holds that are being written."""

    def __init__(self, store: HoldStore, *, most: int) -> None:
        self.most = most
        self._store = store
        self._coming: Counter[tuple[str, str]] = Counter()

    @asynccontextmanager
    async def reserve(self, request: InspectionRequest) -> AsyncIterator[None]:
        """Room to write one more hold in; raises BacklogFull.

        Whoever came before and is still writing counts, even if the store has theirs by now: of two who want
        the last place, rather none gets it than both.
        """
        caller = request.subscription.tenant, request.subscription.source.name
        before = self._coming[caller]
        self._coming[caller] += 1
        try:
            if before + await self._count_pending(*caller) >= self.most and not await self._was_approved(
                request
            ):
                raise BacklogFull(request, self.most)
            yield
        finally:
            self._coming[caller] -= 1
            if not self._coming[caller]:
                del self._coming[caller]

    async def _count_pending(self, tenant: str, caller: str) -> int:
        # A page that begins where the limit ends brings no messages along, which may be large.
        asked = HoldFilter(status="PENDING", source=caller)
        _, total = await self._store.list_holds(tenant, asked, page=self.most, size=1)
        return total

    async def _was_approved(self, request: InspectionRequest) -> bool:
        """Whether a person has let it go on, and it is to wait again: it has had its place."""
        if request.task_id is None:
            return False
        asked = HoldFilter(status="APPROVED", task_id=request.task_id)
        found, _ = await self._store.list_holds(request.subscription.tenant, asked, page=0, size=1)
        return any(decode_hold_body(hold).done_at is None for hold in found)
