"""Periodic work beside requests: sweep, outbox, heartbeats, checkpoints, and deleting old replays."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from placet.desk.review_desk import ReviewDesk
from placet.errors import PlacetError
from placet.ports.store_maintenance import StoreMaintenance
from placet.server.streams import EventStreams

IDLE_FOR = timedelta(seconds=0.5)
PURGE_EVERY = timedelta(minutes=10)
CHECKPOINT_EVERY = timedelta(hours=1)

log = logging.getLogger("placet.background_tasks")


class BackgroundTask(Protocol):
    """Periodic work that runs when something is due."""

    async def run_once(self) -> int:
        """Do everything that is due; return how much was done."""
        ...

    async def next_at(self) -> datetime | None:
        """Return when something is due next, or None."""
        ...


class SweepTask(BackgroundTask, Protocol):
    """The task that expires, reminds and erases cases."""

    async def catch_up(self) -> int:
        """Do what has no due time; return how much was done."""
        ...


class BackgroundTasks:
    """Runs the periodic work; a failure is logged and the work is tried again."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        store: StoreMaintenance,
        sweep: SweepTask,
        outbox: BackgroundTask,
        streams: EventStreams,
        make_checkpoint: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`make_checkpoint` signs and stores a checkpoint of the log, unless nothing was written since."""
        self._desk = desk
        self._store = store
        self._sweep = sweep
        self._outbox = outbox
        self._streams = streams
        self._make_checkpoint = make_checkpoint
        self._outbox_wakeup = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks in the running event loop."""
        jobs: list[Coroutine[Any, Any, None]] = [
            self._run_rounds(self._sweep, asyncio.Event()),
            self._run_rounds(self._outbox, self._outbox_wakeup),
            self._purge(),
            self._streams.heartbeat(),
        ]
        if self._make_checkpoint is not None:
            jobs.append(self._run_checkpoints(self._make_checkpoint))
        self._tasks = [asyncio.create_task(job) for job in jobs]

    def wake_outbox(self) -> None:
        """Wake the outbox task, because a delivery was added."""
        self._outbox_wakeup.set()

    async def stop(self) -> None:
        """Stop the tasks; unfinished deliveries are leased and will be tried again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_rounds(self, work: BackgroundTask, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            wait = IDLE_FOR
            try:
                wait = await self._run_round(work)
            except PlacetError as error:
                log.warning("background_task_failed error=%s", error.message)
            except Exception:
                log.exception("background_task_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), wait.total_seconds())

    async def _run_round(self, work: BackgroundTask) -> timedelta:
        """Do what is due, without writing if nothing is; return how long to wait for the next run."""
        due = await work.next_at()
        if due is not None and due <= self._desk.now():
            await work.run_once()
            due = await work.next_at()
        if due is None:
            return IDLE_FOR
        return min(IDLE_FOR, max(due - self._desk.now(), timedelta(milliseconds=5)))

    async def _run_checkpoints(self, make: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await make()
            except PlacetError as error:
                log.error("checkpoint_failed error=%s", error.message)
            except Exception:
                log.exception("checkpoint_failed")
            await asyncio.sleep(CHECKPOINT_EVERY.total_seconds())

    async def _purge(self) -> None:
        while True:
            await self._remove(self._sweep.catch_up())
            await self._remove(self._store.purge(self._desk.now()))
            await asyncio.sleep(PURGE_EVERY.total_seconds())

    async def _remove(self, removal: Awaitable[int]) -> None:
        try:
            await removal
        except PlacetError as error:
            log.warning("purge_failed error=%s", error.message)
        except Exception:
            log.exception("purge_failed")
