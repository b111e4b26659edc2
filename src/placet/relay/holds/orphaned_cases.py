"""Withdraws questions whose message was never kept, since the server died before it could write the hold."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from placet.cases.case import Case
from placet.desk.review_desk import ReviewDesk
from placet.errors import AlreadyClosed, CaseExpired, CaseNotFound, PlacetError
from placet.protocol.poll import Status
from placet.relay.holds.hold_service import case_owner
from placet.relay.holds.hold_storage import HoldSearchStore

SWEEP_INTERVAL = timedelta(minutes=1)
MIN_AGE = timedelta(minutes=2)
"""A hold is written a moment after its case; whatever has none by then never gets one."""
OPEN_STATUSES = (Status.PENDING, Status.OPENED, Status.IN_PROGRESS)
BATCH = 50
LOST_MESSAGE = (
    "The message was lost when the server stopped, before it was kept; its sender was told of no hold."
)

log = logging.getLogger("placet.relay")


class OrphanedCaseSweeper:
    """Looks for them; safe to run in many processes."""

    def __init__(self, store: HoldSearchStore, desk: ReviewDesk, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._desk = desk
        self._now = now
        self._looked_until: dict[str, datetime] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.once()
            except PlacetError as error:
                log.warning("questions without a message could not be looked for: %s", error.message)
            except Exception:
                log.exception("questions without a message could not be looked for")
            await asyncio.sleep(SWEEP_INTERVAL.total_seconds())

    async def once(self) -> int:
        """Withdraw all that are there; returns how many. What was looked at before is not looked at again."""
        until, withdrawn = self._now() - MIN_AGE, 0
        for tenant in await self._store.list_audited_tenants():
            async for case in self._between(tenant, until):
                if await self._store.get_hold_of_case(case.id) is None:
                    await self._withdraw(tenant, case)
                    withdrawn += 1
                await asyncio.sleep(0)  # a hold brings its message along; others come first
            self._looked_until[tenant] = until
        return withdrawn

    async def _between(self, tenant: str, until: datetime) -> AsyncIterator[Case]:
        since = self._looked_until.get(tenant)
        for status in OPEN_STATUSES:
            before: str | None = None
            while True:
                found = await self._store.list_cases(
                    case_owner(tenant).name, status=status, before=before, limit=BATCH
                )
                for case in found:
                    if case.created_at <= until and (since is None or case.created_at > since):
                        yield case
                if len(found) < BATCH or (since is not None and found[-1].created_at <= since):
                    break
                before = found[-1].id

    async def _withdraw(self, tenant: str, case: Case) -> None:
        log.warning("the case %s is withdrawn: its message was never kept", case.id)
        with suppress(AlreadyClosed, CaseExpired, CaseNotFound):
            await self._desk.cancel(case.id, case_owner(tenant), reason=LOST_MESSAGE)
