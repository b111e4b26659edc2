"""Many writes in one transaction: each succeeds or is refused by itself, and all are committed together."""

from contextlib import suppress

import apsw

from placet.cases.case import NO_EVENT
from placet.errors import CaseConflict, Unavailable
from placet.sqlite_outages import SQLITE_OUTAGES
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.writer import Rows
from placet.stores.sqlite.database_file import CommitLost
from placet.stores.sqlite.queries import QUERIES

BEGIN, COMMIT, ROLLBACK = QUERIES["begin"], QUERIES["commit"], QUERIES["rollback"]
INSERT_AUDIT_EVENT, MOVE_AUDIT_HEAD = QUERIES["insert_audit_event"], QUERIES["move_audit_head"]
SAVEPOINT, RELEASE, UNDO = QUERIES["savepoint"], QUERIES["release"], QUERIES["undo"]

OperationOutcome = Rows | Exception

_TAKEN = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)


def begin(connection: apsw.Connection) -> None:
    """Start a write transaction. Raises BusyError while another process has one."""
    roll_back(connection)
    connection.execute(BEGIN)


def run(cursor: apsw.Cursor, operation: WriteOperation) -> OperationOutcome:
    """Run one operation. A guard that changes no row undoes the operation and returns CaseConflict."""
    connection, execute = cursor.connection, cursor.execute
    has_several_guards = len(operation.guards) > 1
    if has_several_guards:
        execute(SAVEPOINT)
    for name, params in operation.guards:
        execute(QUERIES[name], params)
        if not connection.changes():
            if has_several_guards:
                execute(UNDO)
                execute(RELEASE)
            return CaseConflict()
    if has_several_guards:
        execute(RELEASE)
    found: Rows = []
    for name, params in operation.statements:
        found = execute(QUERIES[name], params).fetchall()
    for event in operation.audit_events:
        execute(INSERT_AUDIT_EVENT, event)
        execute(MOVE_AUDIT_HEAD, (event[0], NO_EVENT))
    return found


def commit(connection: apsw.Connection) -> None:
    """Commit the transaction, or roll it back and raise SQLite's error."""
    try:
        connection.execute(COMMIT)
    except Exception:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Roll back the open transaction, if there is one. Some errors have ended it already."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute(ROLLBACK)


def error_for_caller(error: Exception) -> Exception:
    """Return the exception that the caller of a failed write gets."""
    if isinstance(error, CommitLost):
        return Unavailable(f"The database is unavailable ({error}). The write may be lost.")
    if isinstance(error, SQLITE_OUTAGES):
        return Unavailable(f"The database is unavailable ({error}). Nothing was recorded; try again.")
    if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", None) in _TAKEN:
        return CaseConflict()
    return error
