"""Reads in the calling thread: a read by key is faster than handing it to another thread."""

from typing import Any

import apsw

from placet.errors import Unavailable
from placet.stores.sqlite.connection import OUTAGE_ERRORS
from placet.stores.sqlite.rows import Params


class Reader:
    """Runs queries on the last commit. All rows are fetched, so that no query keeps old pages in use."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, params: Params = ()) -> list[Any]:
        """Return all rows, or none if a parameter is a value that SQLite cannot store. Raises Unavailable."""
        try:
            return self._connection.execute(sql, params).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []
        except (*OUTAGE_ERRORS, apsw.ConnectionClosedError) as error:
            raise Unavailable(f"The database cannot be read right now ({error}).") from error

    def row(self, sql: str, params: Params = ()) -> Any:
        """Return the first row, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
