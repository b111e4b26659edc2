"""Connections to a database file, with the settings that the store relies on."""

from pathlib import Path

import apsw

from placet.cases.audit_chain import compute_link_digest

BUSY_FOR_MS = 5_000  # how long the writer waits for another process
READ_BUSY_FOR_MS = 100  # readers block the event loop
TRUNCATE_BUSY_FOR_MS = 200  # no write is possible meanwhile
CACHE_KIB = 32_768
CHECKPOINT_PAGES = 4_000
LOG_BYTES = 64 * 2**20  # a log that grew beyond this is truncated
PAGE_SIZE = 4_096


def connect_writer(path: Path) -> apsw.Connection:
    """Open the connection that writes. Its commits are on disk when they return."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_FOR_MS)
    _tune(connection)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", True)  # on systems where fsync stops at the drive's cache
    connection.pragma("journal_size_limit", LOG_BYTES)
    connection.pragma("secure_delete", True)  # erased content is overwritten, not only unlinked
    enforce_schema(connection)
    add_functions(connection)
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    return connection


def connect_reader(path: Path) -> apsw.Connection:
    """Open a read-only connection, which sees the last commit."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(READ_BUSY_FOR_MS)
    _tune(connection)
    return connection


def enforce_schema(connection: apsw.Connection) -> None:
    """Switch on the checks that the schema relies on and that SQLite leaves off by default."""
    connection.pragma("foreign_keys", True)
    connection.pragma("recursive_triggers", True)  # otherwise REPLACE deletes events past their trigger


def add_functions(connection: apsw.Connection) -> None:
    """Add the functions that statements of the writer call."""
    connection.create_scalar_function("audit_link", compute_link_digest, deterministic=True)


def checkpoint_log(path: Path) -> None:
    """Copy the write-ahead log into the database file, as far as readers and writers allow."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.pragma("fullfsync", True)
        connection.pragma("journal_mode")  # makes the connection open the log
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    finally:
        connection.close()


def truncate_log(connection: apsw.Connection) -> None:
    """Remove earlier writes from the write-ahead log, since it would still contain erased content.

    Use the connection that writes: it would take a log that another connection truncated for a write by
    another process. Raises BusyError if a reader or another writer blocks it for long.
    """
    connection.set_busy_timeout(TRUNCATE_BUSY_FOR_MS)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.set_busy_timeout(0)


def _tune(connection: apsw.Connection) -> None:
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "memory")
    connection.pragma("trusted_schema", False)
