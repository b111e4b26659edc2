"""Send approved messages again at once when their agent answers after an outage."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from placet.ports.hold_store import HoldStore
from placet.relay.tenants import RegisteredAgent
from placet.relay.traceback_redaction import redact_traceback

LEASE_FOR = timedelta(seconds=61)
"""A delivery that is due within this time may be in progress, leased by another server. It is left alone."""

log = logging.getLogger("placet.relay")


class ReleaseScheduler:
    """Makes the waiting releases of an agent due."""

    def __init__(
        self, store: HoldStore, *, now: Callable[[], datetime], wake_outbox: Callable[[], None]
    ) -> None:
        self._store = store
        self._now = now
        self._wake_outbox = wake_outbox
        self._jobs: set[asyncio.Task[None]] = set()

    def release_waiting(self, agent: RegisteredAgent) -> None:
        """Make due what waits for this agent. Returns at once; a failure is logged."""
        job = asyncio.create_task(self._release_waiting(agent))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def aclose(self) -> None:
        """Wait for the changes in progress."""
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def _release_waiting(self, agent: RegisteredAgent) -> None:
        now = self._now()
        try:
            if await self._store.make_releases_due(agent.tenant, agent.id, now=now, after=now + LEASE_FOR):
                self._wake_outbox()
        except Exception as error:
            log.error("release_scheduling_failed agent=%s error=%s", agent.id, redact_traceback(error))
