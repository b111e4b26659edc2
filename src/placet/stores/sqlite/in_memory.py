"""The store in memory: the same SQL on a private database that ends with the process.

It has one connection and no threads, since no commit waits for a disk. It may be created outside an event
loop and used from several loops, one after the other.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

import apsw

from placet.errors import Unavailable
from placet.stores.listeners import CommitListeners
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import Params
from placet.stores.sql.writer import Rows
from placet.stores.sqlite import batch
from placet.stores.sqlite.connection import add_functions, enforce_schema
from placet.stores.sqlite.migrate import MIGRATIONS
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.store import SqliteStore
from placet.stores.sqlite.threaded_reader import run_read

T = TypeVar("T")


class InMemorySqliteStore(SqliteStore):
    """A `SqliteStore` without a file."""

    def __init__(self) -> None:
        connection, lock = _connect(), threading.RLock()
        reader = _SharedReader(connection, lock)
        super().__init__(reader, ImmediateWriter(connection, lock), _InlineReader(reader))


class ImmediateWriter(CommitListeners):
    """A `Writer` that commits each operation before `submit` returns."""

    def __init__(self, connection: apsw.Connection, lock: threading.RLock) -> None:
        super().__init__()
        self._connection = connection
        self._lock = lock
        self._closed = False

    def submit(self, operation: WriteOperation) -> "asyncio.Future[Rows]":
        """Commit the operation; see `Writer`."""
        if self._closed:
            raise Unavailable("The store is closed.")
        future: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        try:
            with self._lock:
                outcome = self._commit(operation)
        except Exception as error:
            outcome = batch.error_for_caller(error)
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            return future
        future.set_result(outcome)
        self.notify_listeners(operation.changed, operation.tenants)
        return future

    def _commit(self, operation: WriteOperation) -> batch.OperationOutcome:
        batch.begin(self._connection)
        try:
            outcome = batch.run(self._connection.cursor(), operation)
        except Exception:
            batch.roll_back(self._connection)
            raise
        batch.commit(self._connection)
        return outcome

    async def truncate_log(self) -> None:
        """Do nothing: there is no log."""

    async def finish(self) -> None:
        """Accept no more writes."""
        self._closed = True

    def close(self) -> None:
        """Close the connection, and with it the database."""
        self._connection.close()


class _SharedReader(Reader):
    """Reads through the connection that writes, under its lock."""

    def __init__(self, connection: apsw.Connection, lock: threading.RLock) -> None:
        super().__init__(connection)
        self._lock = lock

    def fetch(self, sql: str, params: Params = ()) -> list[Any]:
        with self._lock:
            return super().fetch(sql, params)


class _InlineReader:
    """Runs long reads in the calling thread."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._closed = False

    async def run(self, read: Callable[[SqlReader], Awaitable[T]], *, at_once: bool = False) -> T:
        if self._closed:
            raise Unavailable("The store is closed.")
        return run_read(read, self._reader, at_once=at_once)

    async def checkpoint_log(self) -> None:
        """Do nothing: there is no log."""

    async def aclose(self) -> None:
        self._closed = True


def _connect() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", _build_empty_database())
    enforce_schema(connection)
    add_functions(connection)
    return connection


@cache
def _build_empty_database() -> bytes:
    connection = apsw.Connection(":memory:")
    for sql in MIGRATIONS.values():
        connection.execute(sql)
    return bytes(connection.serialize("main"))
