"""The writer of a PostgreSQL database: writes submitted during a transaction form the next one."""

import asyncio
from collections import deque
from collections.abc import Callable

from placet.errors import CaseConflict, Unavailable
from placet.stores.listeners import CommitListeners
from placet.stores.postgres.batch import BatchResult, CommitUncertain, EventRange, write_batch
from placet.stores.postgres.connection import PostgresPool
from placet.stores.postgres.outages import RETRIED, error_for_caller, is_outage
from placet.stores.postgres.queries import SET_STATEMENTS, list_keys
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.outage_log import OutageLog
from placet.stores.sql.writer import Rows

MAX_BATCH = 256
MAX_ATTEMPTS = 5
Pending = tuple[WriteOperation, "asyncio.Future[Rows]"]
CommitListener = Callable[[EventRange, tuple[str, ...], tuple[str, ...]], None]
"""Is called with the events, the cases and the tenants that a commit changed."""


class BatchWriter(CommitListeners):
    """A `Writer` that commits many operations in one transaction. Other operations run beside it."""

    def __init__(self, pool: PostgresPool, outages: OutageLog) -> None:
        super().__init__()
        self._pool = pool
        self._outages = outages
        self._commit_listeners: list[CommitListener] = []
        self._waiting: deque[Pending] = deque()
        self._batching: asyncio.Task[None] | None = None
        self._single: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(self, operation: WriteOperation) -> "asyncio.Future[Rows]":
        """Queue an operation for the next batch, or run it by itself; see `Writer`."""
        if self._closed:
            raise Unavailable("The store is closed.")
        future: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        if _fits_into_batch(operation):
            self._waiting.append((operation, future))
            if self._batching is None or self._batching.done():
                self._batching = asyncio.create_task(self._write_batches())
        else:
            task = asyncio.create_task(self._write([(operation, future)]))
            self._single.add(task)
            task.add_done_callback(self._single.discard)
        return future

    def add_commit_listener(self, listener: CommitListener) -> None:
        """Call `listener` after each commit of this server."""
        self._commit_listeners.append(listener)

    async def finish(self) -> None:
        """See `Writer`."""
        self._closed = True
        running = [task for task in (self._batching, *self._single) if task is not None]
        if running:
            await asyncio.wait(running)

    async def _write_batches(self) -> None:
        await asyncio.sleep(0)  # writes of the same turn of the loop come along
        while self._waiting:
            await self._write(self._take_batch())

    def _take_batch(self) -> list[Pending]:
        """Return the longest run of waiting operations of which no two write the same row."""
        batch: list[Pending] = []
        written: set[tuple[object, ...]] = set()
        while self._waiting and len(batch) < MAX_BATCH:
            keys = list_keys(self._waiting[0][0])
            if not written.isdisjoint(keys):
                break
            written |= keys
            batch.append(self._waiting.popleft())
        return batch

    async def _write(self, batch: list[Pending]) -> None:
        """Write a batch. If one operation is at fault, write each by itself."""
        try:
            result = await self._commit([operation for operation, _ in batch])
        except Exception as error:
            if is_outage(error):
                self._outages.report_failure(error, refused=len(batch))
            if is_outage(error) or len(batch) == 1:
                for _, future in batch:
                    if not future.done():
                        uncertain = isinstance(error, CommitUncertain)
                        future.set_exception(error_for_caller(error, may_be_written=uncertain))
                return
            for pending in batch:
                await self._write([pending])
            return
        self._outages.report_success()
        self._settle(batch, result)

    async def _commit(self, operations: list[WriteOperation]) -> BatchResult:
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                async with self._pool.acquire() as connection:
                    return await write_batch(connection, operations)
            except RETRIED:
                continue
        async with self._pool.acquire() as connection:
            return await write_batch(connection, operations)

    def _settle(self, batch: list[Pending], result: BatchResult) -> None:
        cases: list[str] = []
        tenants: list[str] = []
        for (operation, future), outcome in zip(batch, result.outcomes, strict=True):
            if isinstance(outcome, CaseConflict):
                if not future.done():
                    future.set_exception(outcome)
                continue
            cases.extend(operation.changed)
            tenants.extend(operation.tenants)
            if not future.done():
                future.set_result(outcome)
        self.notify_listeners(cases, tenants)
        for listener in self._commit_listeners:
            listener(result.events, tuple(cases), tuple(tenants))


def _fits_into_batch(operation: WriteOperation) -> bool:
    """Return whether the operation returns no rows, so that its statements can write those of others too."""
    return all(name in SET_STATEMENTS for name, _ in (*operation.guards, *operation.statements))
