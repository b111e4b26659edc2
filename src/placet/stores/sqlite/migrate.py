"""Migration of a database file to the schema of this version, by numbered scripts."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import apsw

from placet.errors import MigrationError, SettingsError
from placet.stores.sql.schema_state import SchemaState, list_scripts
from placet.stores.sqlite.batch import BEGIN, COMMIT, roll_back
from placet.stores.sqlite.connection import BUSY_FOR_MS, PAGE_SIZE
from placet.stores.sqlite.queries import QUERIES

SELECT_STATE = QUERIES["select_state"]
SWITCH_ATTEMPTS = 20
APPLICATION_ID = 0x506C6374  # "Plct": identifies our files, also for `file`


MIGRATIONS = list_scripts(files("placet.stores.sqlite").joinpath("migrations"))


def read_schema_state(path: Path | str, *, scripts: Mapping[int, str] = MIGRATIONS) -> SchemaState:
    """Return the state of a file; a missing file is empty. Raises MigrationError if it is not Placet's."""
    path = Path(path)
    if not path.exists():
        return SchemaState(version=0, known=max(scripts))
    with _open_file(path) as connection:
        return _read_state(connection, path, known=max(scripts))


def migrate(path: Path | str, *, scripts: Mapping[int, str] = MIGRATIONS) -> SchemaState:
    """Run every migration that the file lacks, and return its state before.

    Raises SettingsError if the path cannot be used, MigrationError if the file is too new or not Placet's.
    """
    path = Path(path)
    _create_private(path)
    with _open_file(path) as connection:
        before = _read_state(connection, path, known=max(scripts))
        _enable_wal(connection)
        for number, sql in scripts.items():
            with _explain_failure(path, number):
                _run_migration(connection, number, sql)
        return before


@contextmanager
def _explain_failure(path: Path, number: int) -> Iterator[None]:
    """Raise MigrationError if a script does not fit the file, as after changes by another program."""
    try:
        yield
    except (apsw.SQLError, apsw.ConstraintError, apsw.MismatchError, apsw.SchemaChangeError) as error:
        raise MigrationError(
            f"{path} could not be migrated to schema {number}: {error}. That step was undone."
            " Restore a backup if another program changed the file."
        ) from error


def prepare_file(path: Path, *, scripts: Mapping[int, str] = MIGRATIONS) -> None:
    """Create the schema in an empty file. Raises MigrationError if the schema is older or newer."""
    state = read_schema_state(path, scripts=scripts)
    if state.is_empty:
        migrate(path, scripts=scripts)
    elif not state.is_current:
        raise MigrationError(
            f"{path} has schema {state.version} and this version of Placet works with {state.known}: "
            "make a backup, then run `placet migrate`."
        )


def _read_state(connection: apsw.Connection, path: Path, *, known: int) -> SchemaState:
    version: int
    version, application_id, tables = connection.execute(SELECT_STATE).get
    state = SchemaState(version=version, known=known)
    if application_id != APPLICATION_ID and (version, tables) != (0, 0):
        raise MigrationError(f"{path} is an SQLite database, but not one of Placet's.")
    if version > known:
        raise MigrationError(
            f"{path} has schema {version}, written by a newer version of Placet; "
            f"this one knows {known}. Upgrade Placet, or restore a backup."
        )
    return state


def _enable_wal(connection: apsw.Connection) -> None:
    """Switch to write-ahead logging. Of two processes that switch at once, one gets BusyError."""
    connection.pragma("page_size", PAGE_SIZE)
    for _ in range(SWITCH_ATTEMPTS):
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            connection.execute(BEGIN)
            connection.execute(COMMIT)
        else:
            return
    raise apsw.BusyError("the database is locked")


def _run_migration(connection: apsw.Connection, number: int, sql: str) -> None:
    """Run one migration in one transaction, unless another process has run it."""
    connection.execute(BEGIN)
    try:
        if int(connection.pragma("user_version")) < number:
            connection.execute(sql)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", number)
        connection.execute(COMMIT)
    except Exception:
        roll_back(connection)
        raise


def _create_private(path: Path) -> None:
    """Create the file readable only by its owner; SQLite gives its other files the same permissions."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # do not open it: closing it would drop this process's locks on it
    except OSError as error:
        raise SettingsError(f"The database {path} cannot be used: {error.strerror}.") from error


@contextmanager
def _open_file(path: Path) -> Iterator[apsw.Connection]:
    try:
        connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.CantOpenError as error:
        raise SettingsError(f"The database {path} cannot be opened: {error}.") from error
    try:
        if connection.readonly("main"):
            raise SettingsError(f"The database {path} cannot be used: it is read-only for this user.")
        connection.set_busy_timeout(BUSY_FOR_MS)
        yield connection
    except apsw.NotADBError as error:
        raise MigrationError(f"{path} is not an SQLite database.") from error
    except apsw.CorruptError as error:
        raise MigrationError(f"{path} is damaged: {error}. Restore a backup.") from error
    except (apsw.BusyError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError) as error:
        raise SettingsError(f"The database {path} cannot be opened: {error}.") from error
    finally:
        connection.close()
