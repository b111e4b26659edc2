"""Periodic work beside requests: the sweep, the outbox, heartbeats, and deleting old replays."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from placet.desk.review_desk import ReviewDesk
from placet.errors import PlacetError
from placet.ports.store_maintenance import StoreMaintenance
from placet.server.streams import EventStreams

IDLE_FOR = timedelta(seconds=0.5)
PURGE_EVERY = timedelta(minutes=10)

log = logging.getLogger("placet.background_tasks")


class BackgroundTask(Protocol):
    """Work that is done in rounds, when something is due."""

    async def once(self) -> int:
        """Do all that is due."""
        ...

    async def next_at(self) -> datetime | None:
        """When something is due next."""
        ...


class Sweeping(BackgroundTask, Protocol):
    """The rounds that act for the clock."""

    async def catch_up(self) -> int:
        """Do what no due moment tells of."""
        ...


class BackgroundTasks:
    """Keeps time-driven work going; a round that fails is logged and tried again."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        store: StoreMaintenance,
        sweep: Sweeping,
        outbox: BackgroundTask,
        streams: EventStreams,
    ) -> None:
        self._desk = desk
        self._store = store
        self._sweep = sweep
        self._outbox = outbox
        self._streams = streams
        self._owed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the running loop."""
        jobs: list[Coroutine[Any, Any, None]] = [
            self._rounds(self._sweep, asyncio.Event()),
            self._rounds(self._outbox, self._owed),
            self._purge(),
            self._streams.heartbeat(),
        ]
        self._tasks = [asyncio.create_task(job) for job in jobs]

    def owe(self) -> None:
        """Something has just been put into the outbox."""
        self._owed.set()

    async def stop(self) -> None:
        """End; what is half-way is leased and comes back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _rounds(self, work: BackgroundTask, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            wait = IDLE_FOR
            try:
                wait = await self._round(work)
            except PlacetError as error:
                log.warning("a round could not be finished: %s", error.message)
            except Exception:
                log.exception("a round failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), wait.total_seconds())

    async def _round(self, work: BackgroundTask) -> timedelta:
        """Do what is due, without writing when nothing is; returns how long until the next look."""
        due = await work.next_at()
        if due is not None and due <= self._desk.now():
            await work.once()
            due = await work.next_at()
        if due is None:
            return IDLE_FOR
        return min(IDLE_FOR, max(due - self._desk.now(), timedelta(milliseconds=5)))

    async def _purge(self) -> None:
        while True:
            await self._remove(self._sweep.catch_up())
            await self._remove(self._store.purge(self._desk.now()))
            await asyncio.sleep(PURGE_EVERY.total_seconds())

    async def _remove(self, what_is_over: Awaitable[int]) -> None:
        try:
            await what_is_over
        except PlacetError as error:
            log.warning("what is over could not be removed: %s", error.message)
        except Exception:
            log.exception("what is over could not be removed")
