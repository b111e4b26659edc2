"""The trail in the store: events are made at once and written behind, many at a time.

What belongs to a hold is not written here but with its hold
(docs/decisions/0021-write-audit-events-in-batches.md).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

from placet.errors import Unavailable
from placet.ports.audit_store import AuditRow, AuditStore
from placet.relay.audit.event_factory import AuditEventFactory
from placet.relay.audit.retention_policy import PayloadMode

QueuedEvent = tuple[AuditRow | Callable[[], AuditRow], int]
"""An event or what makes it, and how many bytes it takes."""

BATCH_DELAY = timedelta(milliseconds=40)
BATCH = 200  # bounds how long a write keeps the loop from everything else
BUILD_BATCH = 40  # bounds it too: so many events are made without a pause
MAX_UNBUILT = 1_000  # what an event is made of takes more room than the event
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
RETRY_AFTER = timedelta(milliseconds=100)
MAX_RETRY_AFTER = timedelta(seconds=2)
CLOSE_TIMEOUT = timedelta(seconds=5)
QUEUE_FULL = "The audit cannot be written, so nothing may pass; try again later."

log = logging.getLogger("placet.relay.audit")


class StoredAuditLog:
    """An `AuditLog` in the store: events are queued and written in batches."""

    def __init__(
        self,
        store: AuditStore,
        *,
        now: Callable[[], datetime],
        payloads_for: Callable[[str], PayloadMode] = lambda tenant: "masked",
        max_waiting: int = MAX_WAITING,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        finish_within: timedelta = CLOSE_TIMEOUT,
    ) -> None:
        self._store = store
        maker = AuditEventFactory(now)
        self.row = maker.row
        self.change = maker.change
        self.stamp = maker.stamp
        self._payloads_for = payloads_for
        self._max_waiting = max_waiting
        self._max_waiting_bytes = max_waiting_bytes
        self._finish_within = finish_within
        self._waiting: deque[QueuedEvent] = deque()
        self._bytes = 0
        self._noted = 0
        self._written = 0
        self._flushed: list[tuple[int, asyncio.Future[None]]] = []
        self._hurry = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self.behind = False
        """Whether events wait for a store that does not take them."""

    def payloads_for(self, tenant: str) -> PayloadMode:
        """See `AuditLog`."""
        return self._payloads_for(tenant)

    def record(self, *events: AuditRow) -> None:
        """See `AuditLog`."""
        self._admit()
        for event in events:
            self._add(event, len(event.body))

    def record_later(self, make: Callable[[], AuditRow], *, size: int) -> None:
        """See `AuditLog`."""
        self._admit()
        if len(self._waiting) < MAX_UNBUILT:
            self._add(make, size)
        else:
            event = make()
            self._add(event, len(event.body))

    async def flush(self) -> None:
        """See `AuditLog`."""
        if self._written >= self._noted:
            return
        done = asyncio.get_running_loop().create_future()
        self._flushed.append((self._noted, done))
        self._hurry.set()
        await done

    async def aclose(self) -> None:
        """Write what was noted and take no more; what cannot be written in time is lost and said so."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._finish_within.total_seconds()):
                await self.flush()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._waiting:
            log.error("audit_events_lost count=%d reason=store_unavailable", len(self._waiting))

    def _admit(self) -> None:
        if self._closed:
            raise Unavailable("The audit is closed.")
        if len(self._waiting) >= self._max_waiting or self._bytes >= self._max_waiting_bytes:
            raise Unavailable(QUEUE_FULL)

    def _add(self, event: AuditRow | Callable[[], AuditRow], size: int) -> None:
        self._waiting.append((event, size))
        self._noted += 1
        self._bytes += size
        if len(self._waiting) == BATCH:
            self._hurry.set()
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Write until nothing waits."""
        try:
            while self._waiting:
                if len(self._waiting) < BATCH:
                    await self._gather()
                batch = await self._build_batch()
                await self._store_batch(batch)
                for _ in batch:
                    self._bytes -= self._waiting.popleft()[1]
                self._written += len(batch)
                self._notify_flushed()
        finally:
            self._writer = None

    async def _build_batch(self) -> list[AuditRow]:
        """The next events that are to be written, all of them made; others have their turns meanwhile."""
        made: list[AuditRow] = []
        for place, (event, _) in enumerate(list(islice(self._waiting, BATCH))):
            made.append(event if isinstance(event, AuditRow) else event())
            if place % BUILD_BATCH == BUILD_BATCH - 1:
                await asyncio.sleep(0)
        return made

    async def _store_batch(self, batch: Sequence[AuditRow]) -> None:
        wait = RETRY_AFTER
        while True:
            try:
                await self._store.add_audit_events(batch)
            except Unavailable as error:
                self.behind = True
                log.warning("audit_write_delayed count=%d error=%s", len(self._waiting), error.message)
                await asyncio.sleep(wait.total_seconds())
                wait = min(wait * 2, MAX_RETRY_AFTER)
            except Exception:
                # One that the store will never take must not keep the others, and all that come, from it.
                if len(batch) == 1:
                    log.exception("audit_event_rejected event_id=%s", batch[0].id)
                for event in batch if len(batch) > 1 else ():
                    await self._store_batch([event])
                return
            else:
                self.behind = False
                return

    async def _gather(self) -> None:
        """Let more come together, unless somebody waits."""
        self._hurry.clear()
        if not self._flushed:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), BATCH_DELAY.total_seconds())

    def _notify_flushed(self) -> None:
        told = [one for one in self._flushed if one[0] <= self._written]
        self._flushed = [one for one in self._flushed if one[0] > self._written]
        for _, done in told:
            if not done.done():
                done.set_result(None)
