"""Reads from PostgreSQL. Reads of single cases that come at once share one query."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from placet.errors import Unavailable
from placet.stores.postgres.connection import PostgresConnection, PostgresPool
from placet.stores.postgres.outages import OUTAGES, UNSTORABLE, describe
from placet.stores.postgres.queries import build_sql, escape, unescape
from placet.stores.sql.outage_log import OutageLog
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import Params

T = TypeVar("T")


class ConnectionReader:
    """An `SqlReader` on one connection."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def rows(
        self, query: str, params: Params = (), *, terms: str = "", index: str | None = None
    ) -> list[Any]:
        """See `SqlReader`."""
        try:
            found = await self._connection.fetch(build_sql(query, terms), *map(escape, params))
        except UNSTORABLE:
            return []
        return [*map(unescape, found)]

    async def row(self, query: str, params: Params = (), *, terms: str = "", index: str | None = None) -> Any:
        """See `SqlReader`."""
        found = await self.rows(query, params, terms=terms)
        return found[0] if found else None


class PooledReader:
    """An `SqlReader` and `LongReader` that borrows a connection for each read."""

    def __init__(self, pool: PostgresPool, outages: OutageLog) -> None:
        self._pool = pool
        self._outages = outages
        self._closed = False

    async def rows(
        self, query: str, params: Params = (), *, terms: str = "", index: str | None = None
    ) -> list[Any]:
        """See `SqlReader`."""
        return await self.run(lambda reader: reader.rows(query, params, terms=terms))

    async def row(self, query: str, params: Params = (), *, terms: str = "", index: str | None = None) -> Any:
        """See `SqlReader`."""
        return await self.run(lambda reader: reader.row(query, params, terms=terms))

    async def run(self, read: Callable[[SqlReader], Awaitable[T]], *, at_once: bool = False) -> T:
        """See `LongReader`."""
        if self._closed:
            raise Unavailable("The store is closed.")
        try:
            async with self._pool.acquire() as connection:
                if not at_once:
                    result = await read(ConnectionReader(connection))
                else:
                    async with connection.transaction(isolation="repeatable_read", readonly=True):
                        result = await read(ConnectionReader(connection))
        except OUTAGES as error:
            self._outages.report_failure(_as_exception(error))
            raise Unavailable(f"The database cannot be read right now ({describe(error)}).") from error
        self._outages.report_success()
        return result

    async def aclose(self) -> None:
        """Accept no more reads."""
        self._closed = True


class CaseBatchReader:
    """Reads rows of cases by id: all reads that wait while one query runs become the next query."""

    def __init__(self, reader: PooledReader, query: str) -> None:
        self._reader = reader
        self._query = query
        self._waiting: dict[str, list[asyncio.Future[Any]]] = {}
        self._running: asyncio.Task[None] | None = None

    async def row(self, case_id: str) -> Any:
        """Return the row of a case, or None if it does not exist. Raises Unavailable."""
        if not case_id.isascii() or "\0" in case_id:
            return None  # not an id of ours, and the others in the batch must not suffer
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(case_id, []).append(future)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        await asyncio.sleep(0)  # reads of the same turn of the loop come along
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                found = {row[0]: row[1:] for row in await self._reader.rows(self._query, (list(waiting),))}  # type: ignore[arg-type]
            except Exception as error:
                for future in (one for futures in waiting.values() for one in futures):
                    if not future.done():
                        future.set_exception(error)
            else:
                for case_id, futures in waiting.items():
                    for future in futures:
                        if not future.done():
                            future.set_result(found.get(case_id))


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(str(error))
