"""The one writer: what is asked for while a commit is under way is gathered and committed together.

Statements run on the event loop's own thread, where nothing contends for the interpreter; what waits for the
disk or for another process runs in a worker thread (see docs/decisions, number 0001).
"""

import asyncio
from collections import deque

import apsw

from placet.errors import Unavailable
from placet.stores.sqlite import batch
from placet.stores.sqlite.batch import Outcome, Rows
from placet.stores.sqlite.connection import BUSY_FOR_MS, OUTAGES, cut_log
from placet.stores.sqlite.errand import ErrandThread
from placet.stores.sqlite.operation import Operation
from placet.stores.sqlite.queries import QUERIES
from placet.stores.telling import Listener, tell

MAX_BATCH = 256  # bounds how long the loop is kept from everything else
FULL = 32  # writes: others can be taken in while they are committed
DATA_VERSION = QUERIES["data_version"]

Pending = tuple[Operation, "asyncio.Future[Rows]"]


class Writer:
    """Runs operations in the order they were submitted; each future resolves once its write is on disk."""

    def __init__(self, connection: apsw.Connection, *, busy_for_ms: int = BUSY_FOR_MS) -> None:
        self._connection = connection
        self._busy_for_ms = busy_for_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Pending] = deque()
        self._batch: list[Pending] = []
        self._outcomes: list[Outcome] = []
        self._alone = 0
        self._seen = 0
        self._active = False
        self._closed = False
        self._curious = False
        self._cut: asyncio.Future[None] | None = None
        self._listeners: list[Listener] = []
        self._record_listeners: list[Listener] = []
        self._seen_version = self._data_version()
        self._thread = ErrandThread(self._loop)
        connection.set_busy_timeout(0)

    def submit(self, operation: Operation) -> "asyncio.Future[Rows]":
        """The rows of the operation's last statement; CaseConflict when refused, Unavailable in an outage."""
        if self._closed:
            raise Unavailable("The store is closed.")
        future: asyncio.Future[Rows] = self._loop.create_future()
        self._waiting.append((operation, future))
        self._awake()
        return future

    async def cut_log(self) -> None:
        """Leave nothing of earlier writes in the log, between two commits; raises what is in the way."""
        if self._closed:
            raise Unavailable("The store is closed.")
        if self._cut is None:
            self._cut = self._loop.create_future()
            self._awake()
        await asyncio.shield(self._cut)

    def on_change(self, listener: Listener) -> None:
        """Call `listener` after each commit with every case it changed."""
        self._listeners.append(listener)

    def on_records(self, listener: Listener) -> None:
        """Call `listener` after each commit with every tenant whose records it changed."""
        self._record_listeners.append(listener)

    def tell_of_records(self, tenant: str | None) -> None:
        """Tell who listens to records; None: those of any tenant."""
        tell(self._record_listeners, [tenant])

    def look_around(self) -> None:
        """Tell the listeners if another process has written, now or before the next transaction."""
        self._curious = True
        if not self._active and not self._closed:
            self._look()

    async def finish(self) -> None:
        """Write what was submitted and take no more."""
        if self._closed:
            return
        last = self.submit(Operation())
        self._closed = True
        await asyncio.wait([last])
        last.exception()
        self._thread.stop()

    def close(self) -> None:
        """Let go of the file, once finished."""
        self._connection.close()

    def _awake(self) -> None:
        if not self._active:
            self._active = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if self._seen < len(self._waiting) < FULL and not self._alone:
            self._seen = len(self._waiting)  # a commit costs the same for few and for many: are there more?
            self._loop.call_soon(self._turn)
            return
        self._seen = 0
        if self._curious:
            self._look()
        if self._cut is not None:
            self._thread.run(lambda: cut_log(self._connection), self._log_cut)
            return
        self._batch = self._next_batch()
        if not self._batch:
            self._active = False
            return
        try:
            batch.begin(self._connection)
        except apsw.BusyError:
            self._thread.run(self._begin_patiently, self._begun)
        except Exception as error:
            self._fail(error)
        else:
            self._run()

    def _log_cut(self, error: Exception | None) -> None:
        cut, self._cut = self._cut, None
        if cut is not None and error is not None:
            cut.set_exception(error)
            cut.exception()  # whoever asked may have left
        elif cut is not None:
            cut.set_result(None)
        self._loop.call_soon(self._turn)

    def _next_batch(self) -> list[Pending]:
        size = min(len(self._waiting), 1 if self._alone else MAX_BATCH)
        self._alone = max(0, self._alone - 1)
        return [self._waiting.popleft() for _ in range(size)]

    def _begin_patiently(self) -> None:
        self._connection.set_busy_timeout(self._busy_for_ms)
        try:
            batch.begin(self._connection)
        finally:
            self._connection.set_busy_timeout(0)

    def _begun(self, error: Exception | None) -> None:
        if error is None:
            self._run()
        else:
            self._fail(error)

    def _run(self) -> None:
        connection = self._connection
        try:
            cursor = connection.cursor()  # one for all: each would cost a tenth of its statements
            self._outcomes = [batch.run(cursor, operation) for operation, _ in self._batch]
        except Exception as error:
            batch.roll_back(connection)
            self._fail(error)
        else:
            self._thread.run(lambda: batch.commit(connection), self._committed)

    def _committed(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
            return
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
        tell(self._listeners, changed)
        tell(self._record_listeners, tenants)
        self._loop.call_soon(self._turn)  # those who were waiting may have more to write

    def _fail(self, error: Exception) -> None:
        """An outage fails the whole batch; anything else has one operation as its cause: each runs alone."""
        if isinstance(error, OUTAGES) or len(self._batch) == 1:
            for _, future in self._batch:
                _reject(future, batch.refusal(error))
        else:
            self._waiting.extendleft(reversed(self._batch))
            self._alone = len(self._batch)
        self._loop.call_soon(self._turn)

    def _look(self) -> None:
        self._curious = False
        try:
            version = self._data_version()
        except OUTAGES:
            return  # whoever reads or writes next will hear of it
        if version != self._seen_version:
            self._seen_version = version
            tell(self._listeners, [None])

    def _data_version(self) -> int:
        """Changes when any other connection commits, and not when this one does."""
        version: int = self._connection.execute(DATA_VERSION).get
        return version


def _reject(future: "asyncio.Future[Rows]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
