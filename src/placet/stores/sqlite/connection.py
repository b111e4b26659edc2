"""Connections to one database file, set up the way the store relies on."""

from pathlib import Path

import apsw

BUSY_FOR_MS = 5_000  # how long a writer waits for another process
READ_BUSY_FOR_MS = 100  # readers wait only for one that mends the log after a crash, and on the loop's thread
CUT_BUSY_FOR_MS = 200  # while it waits for readers, nobody writes
CACHE_KIB = 32_768
CHECKPOINT_PAGES = 4_000
LOG_BYTES = 64 * 2**20  # a log that had to grow beyond this is cut back
PAGE_SIZE = 4_096

# What an operator can mend while the server runs: a full disk, a lock held elsewhere, a failing device.
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


def connect_writer(path: Path) -> apsw.Connection:
    """The one connection that writes: what it commits is on disk."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_FOR_MS)
    _tune(connection)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("fullfsync", True)  # where fsync alone stops at the drive's cache
    connection.pragma("journal_size_limit", LOG_BYTES)
    connection.pragma("secure_delete", True)  # what is erased is overwritten, not only forgotten
    connection.pragma("foreign_keys", True)
    connection.pragma("recursive_triggers", True)  # or REPLACE removes events without asking their trigger
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    return connection


def connect_reader(path: Path) -> apsw.Connection:
    """A connection that can only read, and sees the last commit."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(READ_BUSY_FOR_MS)
    _tune(connection)
    return connection


def fold_log(path: Path) -> None:
    """Bring what the log holds into the file, beside readers and writers, as far as they let it."""
    connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.pragma("fullfsync", True)
        connection.pragma("journal_mode")  # until it has looked, it knows of no log
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    finally:
        connection.close()


def cut_log(connection: apsw.Connection) -> None:
    """Leave nothing of earlier writes in the log: erased content would outlive its erasure there.

    By the connection that writes: it takes a log that another has cut for one that another has written.
    Raises BusyError while a reader or another writer is in the way for long.
    """
    connection.set_busy_timeout(CUT_BUSY_FOR_MS)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.set_busy_timeout(0)


def _tune(connection: apsw.Connection) -> None:
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "memory")
    connection.pragma("trusted_schema", False)
