"""Reads on the caller's own thread: a point read is quicker than handing it to another."""

from pathlib import Path
from typing import Any

import apsw

from placet.errors import Unavailable
from placet.stores.sqlite.connection import OUTAGES, connect_reader
from placet.stores.sqlite.rows import Params


class Reader:
    """Answers queries from the last commit; every query is run to its end, so none holds old pages."""

    def __init__(self, path: Path) -> None:
        self._connection = connect_reader(path)

    def rows(self, sql: str, params: Params = ()) -> list[Any]:
        """All rows; none when a parameter is no value that a database could hold. Raises Unavailable."""
        try:
            return self._connection.execute(sql, params).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []
        except (*OUTAGES, apsw.ConnectionClosedError) as error:
            raise Unavailable(f"The database cannot be read right now ({error}).") from error

    def row(self, sql: str, params: Params = ()) -> Any:
        """The first row, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
