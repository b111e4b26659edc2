"""Many writes in one transaction: each succeeds or is refused on its own, all become durable together."""

from contextlib import suppress
from typing import Any

import apsw

from placet.errors import CaseConflict, Unavailable
from placet.stores.sqlite.connection import OUTAGES
from placet.stores.sqlite.operation import Operation
from placet.stores.sqlite.queries import QUERIES

BEGIN, COMMIT, ROLLBACK = QUERIES["begin"], QUERIES["commit"], QUERIES["rollback"]
SAVEPOINT, RELEASE, UNDO = QUERIES["savepoint"], QUERIES["release"], QUERIES["undo"]

Rows = list[Any]
Outcome = Rows | Exception

_TAKEN = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)


def begin(connection: apsw.Connection) -> None:
    """Become the writer; raises BusyError while another process is it."""
    roll_back(connection)
    connection.execute(BEGIN)


def run(cursor: apsw.Cursor, operation: Operation) -> Outcome:
    """Run one operation; a guard that touches no row leaves no trace of it and gives CaseConflict."""
    connection, execute = cursor.connection, cursor.execute
    several = len(operation.guards) > 1
    if several:
        execute(SAVEPOINT)
    for sql, params in operation.guards:
        execute(sql, params)
        if not connection.changes():
            if several:
                execute(UNDO)
                execute(RELEASE)
            return CaseConflict()
    if several:
        execute(RELEASE)
    found: Rows = []
    for sql, params in operation.statements:
        found = execute(sql, params).fetchall()
    return found


def commit(connection: apsw.Connection) -> None:
    """Make the transaction durable, or leave nothing of it and raise what SQLite raised."""
    try:
        connection.execute(COMMIT)
    except Exception:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Forget the open transaction, if there is one: some errors end it themselves, some only later."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute(ROLLBACK)


def refusal(error: Exception) -> Exception:
    """What the caller of a failed write gets."""
    if isinstance(error, OUTAGES):
        return Unavailable(f"The database cannot take this right now ({error}); nothing was recorded.")
    if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", None) in _TAKEN:
        return CaseConflict()
    return error
