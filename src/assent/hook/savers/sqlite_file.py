"""The file that a SqliteSaver keeps threads in: its schema, and connections set up the way it relies on."""

import os
from pathlib import Path

import apsw

from assent.errors import MigrationError, SettingsError

CHECKPOINT_PAGES = 1_000  # a log that is soon written over again syncs faster than one that grows
LOG_BYTES = 64 * 2**20  # a log that had to grow beyond this is cut back
SWITCH_ATTEMPTS = 20
APPLICATION_ID = 0x41736E68  # "Asnh", so that `file` and we recognise our own
VERSION = 2

# What an operator can mend: a full disk, a lock held elsewhere, a failing device.
OUTAGES = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
)

SCHEMA = """
CREATE TABLE threads (
  number INTEGER PRIMARY KEY,
  thread_id BLOB NOT NULL UNIQUE,
  rev INTEGER NOT NULL,
  stage TEXT NOT NULL,
  is_open INTEGER NOT NULL, -- whether it waits or runs; beside the stage, which changes more often
  saved_at INTEGER NOT NULL,
  leased_until INTEGER
) STRICT;
CREATE INDEX open_threads ON threads (is_open) WHERE is_open = 1;
CREATE TABLE checkpoints (
  place INTEGER PRIMARY KEY, -- the thread's number, then 32 bits of rev: no second tree, and neighbours
  rev INTEGER NOT NULL,
  stage TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;

-- A step of a thread is one statement, and so one transaction: a row that is put into this view. `free_at`
-- is when a lease must be over, `oldest` the last checkpoint that is too old by number, `since` by age.
CREATE VIEW steps AS
SELECT
  thread_id, c.rev, c.stage, is_open, c.saved_at, leased_until, text,
  0 AS free_at, 0 AS oldest, 0 AS since
FROM threads JOIN checkpoints AS c ON place = (number << 32) + threads.rev;

CREATE TRIGGER beginning INSTEAD OF INSERT ON steps WHEN new.rev = 1 BEGIN
  SELECT RAISE(ABORT, 'busy') FROM threads WHERE thread_id = new.thread_id AND leased_until > new.free_at;
  INSERT INTO threads (thread_id, rev, stage, is_open, saved_at, leased_until)
  VALUES (new.thread_id, 1, new.stage, new.is_open, new.saved_at, new.leased_until);
  INSERT INTO checkpoints VALUES
    ((last_insert_rowid() << 32) + 1, 1, new.stage, new.saved_at, new.text);
END;

CREATE TRIGGER step INSTEAD OF INSERT ON steps WHEN new.rev <> 1 BEGIN
  SELECT RAISE(ABORT, 'busy') FROM threads WHERE thread_id = new.thread_id AND leased_until > new.free_at;
  SELECT RAISE(ABORT, 'conflict')
  WHERE NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = new.thread_id AND rev = new.rev - 1);
  INSERT INTO checkpoints
  SELECT (number << 32) + new.rev, new.rev, new.stage, new.saved_at, new.text
  FROM threads WHERE thread_id = new.thread_id;
  UPDATE threads
  SET rev = new.rev, stage = new.stage, saved_at = new.saved_at, leased_until = new.leased_until
  WHERE thread_id = new.thread_id;
  UPDATE threads SET is_open = new.is_open WHERE thread_id = new.thread_id AND is_open <> new.is_open;
END;

CREATE TRIGGER retention INSTEAD OF INSERT ON steps WHEN new.oldest > 0 OR new.since IS NOT NULL BEGIN
  DELETE FROM checkpoints WHERE place IN (
    SELECT c.place FROM threads AS t
    JOIN checkpoints AS c ON c.place >= t.number << 32 AND c.place < (t.number << 32) + new.rev
    WHERE t.thread_id = new.thread_id AND (c.rev <= new.oldest OR c.saved_at < new.since)
  );
END;

CREATE TRIGGER release AFTER DELETE ON threads BEGIN
  DELETE FROM checkpoints WHERE place BETWEEN old.number << 32 AND (old.number << 32) + old.rev;
END;
"""
SELECT_STATE = """
SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id
"""


def connect(path: Path, busy_ms: int) -> apsw.Connection:
    """A connection whose commits are on disk."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(busy_ms)
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", True)  # where fsync alone stops at the drive's cache
    connection.pragma("journal_size_limit", LOG_BYTES)
    connection.pragma("trusted_schema", False)
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    return connection


def prepare(path: Path, busy_ms: int) -> None:
    """Make the file what this version works with, whoever else does so at the same time.

    Raises SettingsError when the place cannot be used, MigrationError when the file is another's.
    """
    _create_private(path)
    try:
        connection = connect(path, busy_ms)
        try:
            _build(connection, path)
        finally:
            connection.close()
    except apsw.NotADBError as error:
        raise MigrationError(f"{path} is not an SQLite database.") from error
    except OUTAGES as error:
        raise SettingsError(f"The database {path} cannot be used: {error}.") from error


def _build(connection: apsw.Connection, path: Path) -> None:
    if _built(connection, path):
        return
    _keep_log(connection)
    connection.execute("BEGIN IMMEDIATE")
    if not _built(connection, path):
        connection.execute(SCHEMA)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", VERSION)
    connection.execute("COMMIT")


def _built(connection: apsw.Connection, path: Path) -> bool:
    version, application_id, tables = connection.execute(SELECT_STATE).get
    if (version, application_id, tables) == (0, 0, 0):
        return False
    if application_id != APPLICATION_ID:
        raise MigrationError(f"{path} is an SQLite database, but not one that threads are kept in.")
    if version != VERSION:
        raise MigrationError(f"{path} was written by another version of Assent, with schema {version}.")
    return True


def _keep_log(connection: apsw.Connection) -> None:
    """Write ahead. Of two who switch at once one is told that the other is busy, however patient it is."""
    for _ in range(SWITCH_ATTEMPTS):
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        else:
            return
    raise apsw.BusyError("the database is locked")


def _create_private(path: Path) -> None:
    """The file appears readable by its owner alone; SQLite gives the files beside it the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # untouched: closing it here would drop the locks this process holds on it
    except OSError as error:
        raise SettingsError(f"The database {path} cannot be used: {error.strerror}.") from error
