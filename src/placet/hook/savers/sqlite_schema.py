"""The database file of a SqliteSaver: its schema, migrations and connections."""

import os
from pathlib import Path

import apsw

from placet.errors import MigrationError, SettingsError
from placet.sqlite_outages import SQLITE_OUTAGES

CHECKPOINT_PAGES = 1_000  # a small log that is overwritten syncs faster than one that grows
LOG_BYTES = 64 * 2**20  # a log that grew beyond this is truncated
SWITCH_ATTEMPTS = 20
APPLICATION_ID = 0x506C6368  # "Plch": identifies our files, also for `file`
VERSION = 3

SCHEMA = """
CREATE TABLE threads (
  thread_id BLOB PRIMARY KEY,
  number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE open_threads ( -- those that wait or run
  number INTEGER PRIMARY KEY,
  thread_id BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoints (
  place INTEGER PRIMARY KEY, -- the thread's number, then 32 bits of rev: no second tree, and neighbours
  stage TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  leased_until INTEGER, -- the thread's where this is its newest; beside the text, so that a step is one page
  text TEXT NOT NULL
) STRICT;

-- A step of a thread is one statement, and so one transaction: a row that is put into this view. `free_at`
-- is when a lease must be over, `oldest` the last checkpoint that is too old by number, `since` by age.
CREATE VIEW steps AS
SELECT
  thread_id, place & 0xffffffff AS rev, stage, 0 AS is_open, saved_at, leased_until, text,
  0 AS free_at, 0 AS oldest, 0 AS since
FROM threads JOIN checkpoints ON place > number << 32 AND place < number + 1 << 32;

CREATE TRIGGER beginning INSTEAD OF INSERT ON steps WHEN new.rev = 1 BEGIN
  INSERT INTO checkpoints VALUES (
    (ifnull((SELECT max(place) FROM checkpoints) >> 32, 0) + 1 << 32) + 1,
    new.stage, new.saved_at, new.leased_until, new.text
  );
  INSERT INTO threads VALUES (new.thread_id, last_insert_rowid() >> 32);
  INSERT INTO open_threads SELECT last_insert_rowid() >> 32, new.thread_id WHERE new.is_open;
END;

CREATE TRIGGER step INSTEAD OF INSERT ON steps WHEN new.rev <> 1 BEGIN
  INSERT OR IGNORE INTO checkpoints
  SELECT place + 1, new.stage, new.saved_at, new.leased_until, new.text
  FROM threads JOIN checkpoints ON place = (number << 32) + new.rev - 1
  WHERE thread_id = new.thread_id AND ifnull(leased_until, 0) <= new.free_at;
  SELECT RAISE(ABORT, 'refused') WHERE changes() = 0;
  DELETE FROM checkpoints
  WHERE place BETWEEN last_insert_rowid() - new.rev AND last_insert_rowid() - new.rev + new.oldest;
  DELETE FROM checkpoints
  WHERE
    new.since IS NOT NULL AND saved_at < new.since
    AND place BETWEEN last_insert_rowid() - new.rev AND last_insert_rowid() - 1;
  DELETE FROM open_threads WHERE NOT new.is_open AND number = last_insert_rowid() >> 32;
  INSERT OR IGNORE INTO open_threads SELECT last_insert_rowid() >> 32, new.thread_id WHERE new.is_open;
END;

CREATE TRIGGER release AFTER DELETE ON threads BEGIN
  DELETE FROM checkpoints WHERE place BETWEEN old.number << 32 AND (old.number + 1 << 32) - 1;
  DELETE FROM open_threads WHERE number = old.number;
END;
"""
# Version 2 stored a thread's stage and lease in a separate table.
RENAME_VERSION_2_TABLES = """
DROP VIEW steps;
DROP TRIGGER release;
DROP INDEX open_threads;
ALTER TABLE threads RENAME TO threads_2;
ALTER TABLE checkpoints RENAME TO checkpoints_2;
"""
COPY_VERSION_2_ROWS = """
INSERT INTO threads SELECT thread_id, number FROM threads_2;
INSERT INTO open_threads SELECT number, thread_id FROM threads_2 WHERE is_open = 1;
INSERT INTO checkpoints
SELECT place, c.stage, c.saved_at, CASE WHEN c.rev = t.rev THEN leased_until END, text
FROM checkpoints_2 AS c JOIN threads_2 AS t ON number = place >> 32;
DROP TABLE threads_2;
DROP TABLE checkpoints_2;
"""
MIGRATIONS = {0: SCHEMA, 2: RENAME_VERSION_2_TABLES + SCHEMA + COPY_VERSION_2_ROWS}
"""Version of a file -> the script that brings it to the current version."""
SELECT_STATE = """
SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id
"""


def connect(path: Path, busy_ms: int) -> apsw.Connection:
    """Return a connection whose commits are synced to disk."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(busy_ms)
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", True)  # on systems where fsync stops at the drive's cache
    connection.pragma("journal_size_limit", LOG_BYTES)
    connection.pragma("trusted_schema", False)
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    return connection


def prepare(path: Path, busy_ms: int) -> None:
    """Create or migrate the file; safe if other processes do so at the same time.

    Raises SettingsError if the path cannot be used, MigrationError if the file is not ours.
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
    except SQLITE_OUTAGES as error:
        raise SettingsError(f"The database {path} cannot be used: {error}.") from error


def _build(connection: apsw.Connection, path: Path) -> None:
    if _read_version(connection, path) == VERSION:
        return
    _enable_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    if (version := _read_version(connection, path)) != VERSION:
        connection.execute(MIGRATIONS[version])
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", VERSION)
    connection.execute("COMMIT")


def _read_version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema version, 0 for an empty file; raises MigrationError for an unknown one."""
    version, application_id, tables = connection.execute(SELECT_STATE).get
    if (version, application_id, tables) == (0, 0, 0):
        return 0
    if application_id != APPLICATION_ID:
        raise MigrationError(f"{path} is an SQLite database, but not one of a SqliteSaver.")
    if version != VERSION and (version == 0 or version not in MIGRATIONS):
        raise MigrationError(f"{path} was written by another version of Placet, with schema {version}.")
    return int(version)


def _enable_wal(connection: apsw.Connection) -> None:
    """Switch to a write-ahead log; retries, because SQLite reports busy to concurrent switches at once."""
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
    """Create the file with access for its owner only; SQLite gives its side files the same permissions."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return  # not opened: closing it would drop the locks that this process holds on it
    except OSError as error:
        raise SettingsError(f"The database {path} cannot be used: {error.strerror}.") from error
