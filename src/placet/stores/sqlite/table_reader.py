"""Reads whole tables of a database file, all at one moment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from placet.stores.sql.rows import Row
from placet.stores.sqlite.connection import connect_reader

ROWID_COLUMNS = {("events", "number"): "rowid AS number"}
"""Columns of other engines that are the row's own number here."""


class TableReader:
    """The tables of one database, as they were at the first read."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def has_table(self, table: str) -> bool:
        """Return whether there is a table with this name."""
        sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return bool(self._connection.execute(sql, (table,)).fetchall())

    def count_rows(self, table: str) -> int:
        """Return how many rows a table has."""
        count: int = self._connection.execute(f'SELECT count(*) FROM "{table}"').get  # noqa: S608
        return count

    def iterate_rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield every row of a table, in the order in which rows with a number were added."""
        terms = [ROWID_COLUMNS.get((table, column), f'"{column}"') for column in columns]
        order = " ORDER BY number" if "number" in columns else ""
        yield from self._connection.execute(f'SELECT {", ".join(terms)} FROM "{table}"{order}')  # noqa: S608


@contextmanager
def open_tables(path: Path) -> Iterator[TableReader]:
    """Open the tables of a database that has the schema of this version."""
    connection = connect_reader(path)
    try:
        connection.execute("BEGIN DEFERRED")
        yield TableReader(connection)
    finally:
        connection.close()
