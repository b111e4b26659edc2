"""Read the database file of a server that runs in this process.

With apsw, like the server: of two copies of SQLite in one process, each drops the other's locks, and then the
process may crash.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

WRITTEN_IN_THE_BACKGROUND = ("checkpoints", "secrets")
"""The server signs a checkpoint of its log soon after its start, with a secret that is new then."""


def read_rows(path: Path | str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each table that requests write to."""
    with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.execute("BEGIN")  # one moment for all tables
        tables = [
            str(name)
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not str(name).startswith("sqlite_") and name not in WRITTEN_IN_THE_BACKGROUND
        ]
        return {name: list(connection.execute(f"SELECT * FROM {name}")) for name in tables}
