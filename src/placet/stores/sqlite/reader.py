"""Reads in the calling thread: a read by key is faster than handing it to another thread."""

from typing import Any

import apsw

from placet.errors import Unavailable
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.sql.queries import complete_query
from placet.stores.sql.rows import Params
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.storage_monitor import StorageMonitor


class Reader:
    """Runs queries on the last commit. All rows are fetched, so that no query keeps old pages in use."""

    def __init__(self, connection: apsw.Connection, monitor: StorageMonitor | None = None) -> None:
        self._connection = connection
        self._monitor = monitor or StorageMonitor()

    async def rows(
        self, query: str, params: Params = (), *, terms: str = "", index: str | None = None
    ) -> list[Any]:
        """See `SqlReader`. Never suspends."""
        return self.fetch(build_sql(query, terms, index), params)

    async def row(self, query: str, params: Params = (), *, terms: str = "", index: str | None = None) -> Any:
        """See `SqlReader`. Never suspends."""
        found = self.fetch(build_sql(query, terms, index), params)
        return found[0] if found else None

    def fetch(self, sql: str, params: Params = ()) -> list[Any]:
        """Return all rows, or none if a parameter is a value that SQLite cannot store. Raises Unavailable."""
        try:
            if self._monitor.is_replaced:
                self._monitor.require_in_place()
            found = self._connection.execute(sql, params).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []
        except SQLITE_OUTAGES as error:
            self._monitor.reads.report_failure(error)
            raise Unavailable(f"The database cannot be read right now ({error}).") from error
        except apsw.ConnectionClosedError as error:
            raise Unavailable("The store is closed.") from error
        self._monitor.reads.report_success()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def build_sql(query: str, terms: str, index: str | None) -> str:
    """Return the statement with this name, completed by terms that use an index."""
    if not terms:
        return QUERIES[query]
    return complete_query(QUERIES[query], terms if index is None else f"INDEXED BY {index} {terms}")
