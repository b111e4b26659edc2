"""Reads in the calling thread: a read by key is faster than handing it to another thread."""

from typing import Any

import apsw

from placet.errors import Unavailable
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.sqlite.rows import Params
from placet.stores.sqlite.storage_monitor import StorageMonitor


class Reader:
    """Runs queries on the last commit. All rows are fetched, so that no query keeps old pages in use."""

    def __init__(self, connection: apsw.Connection, monitor: StorageMonitor | None = None) -> None:
        self._connection = connection
        self._monitor = monitor or StorageMonitor()

    def rows(self, sql: str, params: Params = ()) -> list[Any]:
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

    def row(self, sql: str, params: Params = ()) -> Any:
        """Return the first row, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
