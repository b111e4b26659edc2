"""Write task rows and audit events in batches, in the order they were queued.

The task rows that a call changes wait for the audit event of the call. Rows and event are then one
transaction, so that a crash loses both or neither (docs/decisions/0021-write-audit-events-in-batches.md).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice

from placet.errors import Unavailable
from placet.ports.audit_store import AuditRow
from placet.ports.relay_store import RelayStore
from placet.ports.task_store import TaskKey, TaskRow
from placet.relay.exchange import CallWrites

BuildEvent = Callable[[], AuditRow]
QueuedWrite = tuple[AuditRow | BuildEvent | None, Sequence[TaskRow], int]
"""An event or the function that builds it, the task rows of its transaction, and their size in bytes."""
BuiltWrite = tuple[AuditRow | None, Sequence[TaskRow]]

BATCH_DELAY = timedelta(milliseconds=40)
BATCH = 200  # bounds how long one transaction blocks the event loop
BUILD_BATCH = 40  # how many events are built before other tasks of the event loop run
MAX_UNBUILT = 1_000  # an event that is not built takes more memory than a built one
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
ROW_OVERHEAD_BYTES = 500  # a row's key and fields, roughly
RETRY_AFTER = timedelta(milliseconds=100)
MAX_RETRY_AFTER = timedelta(seconds=2)
CLOSE_TIMEOUT = timedelta(seconds=5)
QUEUE_FULL = "The audit log cannot be written, so no calls are accepted. Try again later."
QUEUE_CLOSED = "The server is stopping. Try again later."

log = logging.getLogger("placet.relay.audit")


class WriteQueue:
    """Writes task rows and audit events behind: up to 200 writes per transaction, at most 40 ms later."""

    def __init__(self, store: RelayStore) -> None:
        self._store = store
        self._waiting: deque[QueuedWrite] = deque()
        self._bytes = 0
        self._queued = 0
        self._written = 0
        self._unwritten: dict[TaskKey, TaskRow] = {}
        """The newest row of each key that is not on disk."""
        self._calls: dict[TaskKey, CallWrites] = {}
        """The call whose event a row waits for."""
        self._saved_listeners: list[Callable[[TaskKey, TaskRow], None]] = []
        self._flushes: list[tuple[int, bool, asyncio.Future[None]]] = []
        self._hurry = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self.is_behind = False
        """Whether the store is unavailable and writes wait for it."""

    def add_saved_listener(self, listener: Callable[[TaskKey, TaskRow], None]) -> None:
        """Call `listener` with each row that is on disk and is still the newest of its key."""
        self._saved_listeners.append(listener)

    def check_capacity(self) -> None:
        """Raise Unavailable if the queue is full or closed."""
        if self._closed:
            raise Unavailable(QUEUE_CLOSED)
        if len(self._waiting) >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
            raise Unavailable(QUEUE_FULL)

    def get_unwritten(self, key: TaskKey) -> TaskRow | None:
        """Return the newest row of a key if it is not on disk yet."""
        return self._unwritten.get(key)

    def save_task(self, row: TaskRow, call: CallWrites | None = None) -> bool:
        """Queue a row, or keep it for the event of its call. Return whether the row is queued.

        A row that replaces one that waits for an event waits for the same event. Raises Unavailable if the
        queue is full or closed.
        """
        self.check_capacity()
        key = row.key
        self._unwritten[key] = row
        waits_for = self._calls.get(key)
        if waits_for is None and call is not None and not call.is_recorded:
            waits_for = call
        if waits_for is None:
            self._add(None, (row,), _estimate_size(row))
            return True
        waits_for.add(row)
        self._calls[key] = waits_for
        return False

    def adopt_task(self, row: TaskRow) -> None:
        """Take over a row that another transaction has just written.

        The row is written again, in case an older row of its key is still queued.
        """
        key = row.key
        call = self._calls.pop(key, None)
        if call is not None:
            call.rows.pop(key, None)
        self._unwritten[key] = row
        self._add(None, (row,), _estimate_size(row))

    def record(self, *events: AuditRow, call: CallWrites | None = None) -> None:
        """Queue events, the first with the rows of its call as one transaction.

        Raises Unavailable if the queue is full or closed. The rows of the call are discarded then.
        """
        self._check_capacity_for(call)
        for event in events:
            self._add_event(event, len(event.body), call)

    def record_later(self, build: BuildEvent, size: int, call: CallWrites | None = None) -> None:
        """Queue an event that is built when it is written; see `record`."""
        self._check_capacity_for(call)
        if len(self._waiting) < MAX_UNBUILT:
            self._add_event(build, size, call)
        else:
            self.record(build(), call=call)

    def discard(self, call: CallWrites) -> None:
        """Forget the rows of a call that still wait, because no event of the call will be recorded."""
        for row in self._take(call):
            self._forget(row)

    async def flush(self, *, fail_fast: bool = False) -> None:
        """Return when everything that is queued now is on disk.

        Raises Unavailable with `fail_fast` if the store is unavailable. Without it, the call waits.
        """
        if self._written >= self._queued:
            return
        done = asyncio.get_running_loop().create_future()
        self._flushes.append((self._queued, fail_fast, done))
        self._hurry.set()
        await done

    async def aclose(self) -> None:
        """Write what is queued and accept no more. What cannot be written in time is lost and logged."""
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                await self.flush()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._waiting:
            events = sum(event is not None for event, _, _ in self._waiting)
            tasks = sum(len(rows) for _, rows, _ in self._waiting)
            log.error("audit_events_lost count=%d tasks=%d reason=store_unavailable", events, tasks)

    def _check_capacity_for(self, call: CallWrites | None) -> None:
        """Raise Unavailable and discard the rows of the call if the queue is full or closed."""
        try:
            self.check_capacity()
        except Unavailable:
            if call is not None:
                self.discard(call)
            raise

    def _add_event(self, event: AuditRow | BuildEvent, size: int, call: CallWrites | None) -> None:
        rows = self._take(call) if call is not None and call.rows else ()
        self._add(event, rows, size + sum(map(_estimate_size, rows)))

    def _add(self, event: AuditRow | BuildEvent | None, rows: Sequence[TaskRow], size: int) -> None:
        self._waiting.append((event, rows, size))
        self._queued += 1
        self._bytes += size
        if len(self._waiting) == BATCH:
            self._hurry.set()
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    def _take(self, call: CallWrites) -> Sequence[TaskRow]:
        rows = call.take_rows()
        for row in rows:
            self._calls.pop(row.key, None)
        return rows

    def _forget(self, row: TaskRow) -> bool:
        """Remove a row from the unwritten ones if it is the newest of its key; return whether it was."""
        if self._unwritten.get(row.key) is not row:
            return False
        del self._unwritten[row.key]
        return True

    async def _write(self) -> None:
        """Write until the queue is empty."""
        try:
            while self._waiting:
                if len(self._waiting) < BATCH:
                    await self._wait_for_more()
                batch = await self._build_batch()
                await self._store_batch(batch)
                for _ in batch:
                    _, rows, size = self._waiting.popleft()
                    self._bytes -= size
                    for row in rows:
                        self._notify_saved(row)
                self._written += len(batch)
                self._notify_flushed()
        finally:
            self._writer = None

    async def _build_batch(self) -> list[BuiltWrite]:
        """Build the events of the next batch. Other tasks of the event loop run in between."""
        built: list[BuiltWrite] = []
        for place, (event, rows, _) in enumerate(list(islice(self._waiting, BATCH))):
            built.append((event() if callable(event) else event, rows))
            if place % BUILD_BATCH == BUILD_BATCH - 1:
                await asyncio.sleep(0)
        return built

    async def _store_batch(self, batch: Sequence[BuiltWrite]) -> None:
        """Write a batch as one transaction, and retry while the store is unavailable.

        If the store rejects the batch, each write is stored by itself, and a rejected write is dropped: it
        must not block all later writes.
        """
        wait = RETRY_AFTER
        while True:
            try:
                await self._store_once(batch)
            except Unavailable as error:
                self.is_behind = True
                log.warning("audit_write_delayed count=%d error=%s", len(self._waiting), error.message)
                self._fail_flushes(error)
                await self._wait_for_hurry(wait)
                wait = min(wait * 2, MAX_RETRY_AFTER)
            except Exception:
                if len(batch) > 1:
                    for write in batch:
                        await self._store_batch([write])
                    return
                ((event, rows),) = batch
                log.exception("audit_event_rejected event_id=%s tasks=%d", event and event.id, len(rows))
                for row in rows:
                    self._forget(row)
                return
            else:
                self.is_behind = False
                return

    async def _store_once(self, batch: Iterable[BuiltWrite]) -> None:
        events = [event for event, _ in batch if event is not None]
        tasks = [row for _, rows in batch for row in rows]
        if tasks:
            await self._store.save_tasks(tasks, events=events)
        else:
            await self._store.add_audit_events(events)

    async def _wait_for_more(self) -> None:
        """Wait until a batch is full, a flush is requested, or the delay has passed."""
        if not self._flushes:
            await self._wait_for_hurry(BATCH_DELAY)

    async def _wait_for_hurry(self, timeout: timedelta) -> None:
        self._hurry.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), timeout.total_seconds())

    def _notify_saved(self, row: TaskRow) -> None:
        if self._forget(row):
            for listener in self._saved_listeners:
                listener(row.key, row)

    def _notify_flushed(self) -> None:
        finished = [done for number, _, done in self._flushes if number <= self._written]
        self._flushes = [flush for flush in self._flushes if flush[0] > self._written]
        for done in finished:
            if not done.done():
                done.set_result(None)

    def _fail_flushes(self, error: Unavailable) -> None:
        failed = [done for _, fail_fast, done in self._flushes if fail_fast]
        self._flushes = [flush for flush in self._flushes if not flush[1]]
        for done in failed:
            if not done.done():
                done.set_exception(error)


def _estimate_size(row: TaskRow) -> int:
    return len(row.body) + ROW_OVERHEAD_BYTES
