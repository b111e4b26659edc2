"""The writer of a database file, with group commit: writes submitted during a commit form the next batch.

Statements run in the event loop's thread, where nothing competes for the interpreter lock. Waiting for the
disk or for another process happens in a worker thread (see docs/decisions, number 0001).
"""

import asyncio
from collections import deque

import apsw

from placet.errors import Unavailable
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.listeners import CommitListeners
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.writer import Rows
from placet.stores.sqlite import batch
from placet.stores.sqlite.batch import OperationOutcome
from placet.stores.sqlite.connection import BUSY_FOR_MS, truncate_log
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.storage_monitor import StorageMonitor
from placet.stores.sqlite.worker_thread import WorkerThread

MAX_BATCH = 256  # bounds how long the event loop is blocked
FULL_BATCH = 32  # a batch of this size does not wait for more writes
CHECK_OTHER_PROCESSES_S = 0.5
DATA_VERSION = QUERIES["data_version"]

Pending = tuple[WriteOperation, "asyncio.Future[Rows]"]


class GroupCommitWriter(CommitListeners):
    """A `Writer` that runs operations in the order they were submitted.

    Each future resolves once its write is on disk.
    """

    def __init__(self, connection: apsw.Connection, monitor: StorageMonitor | None = None) -> None:
        super().__init__()
        self._connection = connection
        self._monitor = monitor or StorageMonitor()
        self._was_replaced = False
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Pending] = deque()
        self._batch: list[Pending] = []
        self._outcomes: list[OperationOutcome] = []
        self._single_writes = 0  # how many of the next writes run in a transaction by themselves
        self._seen_waiting = 0
        self._active = False
        self._closed = False
        self._must_check_version = False
        self._truncation: asyncio.Future[None] | None = None
        self._seen_version = self._read_data_version()
        self._thread = WorkerThread(self._loop)
        connection.set_busy_timeout(0)
        self._timer = self._schedule_check()

    def submit(self, operation: WriteOperation) -> "asyncio.Future[Rows]":
        """Queue an operation for the next batch; see `Writer`."""
        if self._closed:
            raise Unavailable("The store is closed.")
        future: asyncio.Future[Rows] = self._loop.create_future()
        self._waiting.append((operation, future))
        self._wake()
        return future

    async def truncate_log(self) -> None:
        """Remove earlier writes from the log, between two commits. Raises SQLite's error if it cannot."""
        if self._closed:
            raise Unavailable("The store is closed.")
        if self._truncation is None:
            self._truncation = self._loop.create_future()
            self._wake()
        await asyncio.shield(self._truncation)

    def check_other_processes(self) -> None:
        """Notify the listeners if another process has written, now or before the next transaction."""
        self._must_check_version = True
        if not self._active and not self._closed:
            self._check_version()

    async def finish(self) -> None:
        """See `Writer`."""
        if self._closed:
            return
        self._timer.cancel()
        last = self.submit(WriteOperation())
        self._closed = True
        await asyncio.wait([last])
        last.exception()
        self._thread.stop()

    def close(self) -> None:
        """See `Writer`."""
        self._connection.close()

    def _schedule_check(self) -> asyncio.TimerHandle:
        return self._loop.call_later(CHECK_OTHER_PROCESSES_S, self._check_again)

    def _check_again(self) -> None:
        self._monitor.check_files()
        self._report_replacement()
        self.check_other_processes()
        self._timer = self._schedule_check()

    def _wake(self) -> None:
        if not self._active:
            self._active = True
            self._loop.call_soon(self._start_batch)

    def _start_batch(self) -> None:
        if self._seen_waiting < len(self._waiting) < FULL_BATCH and not self._single_writes:
            self._seen_waiting = len(self._waiting)  # a commit costs the same for few and many: wait for more
            self._loop.call_soon(self._start_batch)
            return
        self._seen_waiting = 0
        if self._must_check_version:
            self._check_version()
        if self._truncation is not None:
            self._thread.run(lambda: truncate_log(self._connection), self._finish_truncation)
            return
        self._batch = self._take_batch()
        if not self._batch:
            self._active = False
            return
        try:
            self._monitor.require_in_place()
            batch.begin(self._connection)
        except apsw.BusyError:
            self._thread.run(self._begin_with_timeout, self._continue_after_begin)
        except Exception as error:
            self._fail(error)
        else:
            self._run()

    def _finish_truncation(self, error: Exception | None) -> None:
        truncation, self._truncation = self._truncation, None
        if truncation is not None and error is not None:
            truncation.set_exception(error)
            truncation.exception()  # marks it as retrieved: the caller may have been cancelled
        elif truncation is not None:
            truncation.set_result(None)
        self._loop.call_soon(self._start_batch)

    def _take_batch(self) -> list[Pending]:
        size = min(len(self._waiting), 1 if self._single_writes else MAX_BATCH)
        self._single_writes = max(0, self._single_writes - 1)
        return [self._waiting.popleft() for _ in range(size)]

    def _begin_with_timeout(self) -> None:
        self._connection.set_busy_timeout(BUSY_FOR_MS)
        try:
            batch.begin(self._connection)
        finally:
            self._connection.set_busy_timeout(0)

    def _continue_after_begin(self, error: Exception | None) -> None:
        if error is None:
            self._run()
        else:
            self._fail(error)

    def _run(self) -> None:
        connection = self._connection
        try:
            cursor = connection.cursor()  # one cursor for all: creating one costs a tenth of a statement
            self._outcomes = [batch.run(cursor, operation) for operation, _ in self._batch]
        except Exception as error:
            batch.roll_back(connection)
            self._fail(error)
        else:
            self._thread.run(self._commit, self._finish_batch)

    def _commit(self) -> None:
        batch.commit(self._connection)
        self._monitor.require_in_place_after_commit()

    def _finish_batch(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
            return
        self._monitor.writes.report_success()
        self._report_replacement()
        changed: list[str] = []
        tenants: list[str] = []
        for (operation, future), outcome in zip(self._batch, self._outcomes, strict=True):
            if isinstance(outcome, Exception):
                _reject(future, outcome)
                continue
            changed.extend(operation.changed)
            tenants.extend(operation.tenants)
            if not future.done():
                future.set_result(outcome)
        self.notify_listeners(changed, tenants)
        self._loop.call_soon(self._start_batch)  # the callers may submit more

    def _fail(self, error: Exception) -> None:
        """Fail the whole batch in an outage. Otherwise one operation is the cause: run each by itself."""
        if isinstance(error, SQLITE_OUTAGES):
            self._monitor.writes.report_failure(error, refused=len(self._batch))
            self._report_replacement()
        if isinstance(error, SQLITE_OUTAGES) or len(self._batch) == 1:
            for _, future in self._batch:
                _reject(future, batch.error_for_caller(error))
        else:
            self._waiting.extendleft(reversed(self._batch))
            self._single_writes = len(self._batch)
        self._loop.call_soon(self._start_batch)

    def _report_replacement(self) -> None:
        """Notify the listeners if the database was replaced or put back, so that they clear their caches."""
        if self._monitor.is_replaced != self._was_replaced:
            self._was_replaced = self._monitor.is_replaced
            self.notify_listeners([None])

    def _check_version(self) -> None:
        self._must_check_version = False
        try:
            version = self._read_data_version()
        except SQLITE_OUTAGES:
            return  # the next read or write reports it
        if version != self._seen_version:
            self._seen_version = version
            self.notify_listeners([None])

    def _read_data_version(self) -> int:
        """Return a number that changes when any other connection commits, but not when this one does."""
        version: int = self._connection.execute(DATA_VERSION).get
        return version


def _reject(future: "asyncio.Future[Rows]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
