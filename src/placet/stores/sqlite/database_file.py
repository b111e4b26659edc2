"""Check that the open files of a database are still the ones at its path.

A database that is deleted, moved or replaced stays open, and commits to it succeed. They would be lost when
the process ends, because the next one opens what is at the path then.

Copying another file over it, or truncating it, keeps its inode. SQLite never makes the database smaller,
except with VACUUM, which no command of ours runs. So a smaller database was overwritten. It makes the
write-ahead log smaller, but never smaller than the frames that are in use. After each change of the database
its header is compared with the one before. SQLite counts changes there, so an older file is noticed.
"""

import os
from pathlib import Path

import apsw

from placet.stores.sqlite.connection import PAGE_SIZE, connect_reader

LOG_HEADER_BYTES = 32
HEADER_BYTES = 100
CHANGE_COUNTER = slice(24, 28)
FIXED_PARTS = (slice(0, 24), slice(56, 60), slice(68, 72))
"""The magic text, the format and page size, the text encoding, and the id of the application."""
FRAME_BYTES = 24 + PAGE_SIZE

Identity = tuple[int, int]
"""The device and inode of a file."""


class DatabaseReplaced(apsw.CantOpenError):
    """The database at the path is not the one that is open."""


class CommitLost(DatabaseReplaced):
    """A transaction was committed to a file that was replaced meanwhile."""


class DatabaseFile:
    """The files of an open database: the database itself, its write-ahead log and the index of the log."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        """Take the files of a connection that has opened the log."""
        self._path = path.absolute()
        opened = connection.filename  # without symbolic links
        self._log = connection.filename_wal
        self._files = [
            (os.lstat, name, _identify(os.lstat(name))) for name in (opened, self._log, f"{opened}-shm")
        ]
        if str(self._path) != opened:
            self._files.append((os.stat, str(self._path), self._files[0][2]))
        self._sizes = {name: os.stat(name).st_size for name in (opened, self._log)}
        self._opened = opened
        self._changed_at = os.stat(opened).st_mtime_ns
        self._header = self._read_header()
        self._overwritten: str | None = None
        self.is_replaced = False
        """Whether the last check found another file. Reads rely on it."""
        self.require_in_place()

    def require_in_place(self) -> None:
        """Raise DatabaseReplaced if a file was deleted, moved, replaced or overwritten.

        It may be moved back. After it was overwritten, only a restart helps.
        """
        for read_status, name, identity in self._files:
            try:
                status = read_status(name)
            except OSError:
                found = None
            else:
                found = _identify(status)
                if found == identity and name in self._sizes:
                    self._record_size(name, status.st_size)
                if found == identity and name == self._opened and status.st_mtime_ns != self._changed_at:
                    self._record_change(status.st_mtime_ns)
            if found != identity:
                self.is_replaced = True
                happened = "is not the file that was opened" if found else "was deleted or moved"
                raise DatabaseReplaced(f"{Path(name).name} {happened}; put it back, or restart the server")
        self.is_replaced = self._overwritten is not None
        if self._overwritten is not None:
            name = Path(self._overwritten).name
            raise DatabaseReplaced(f"{name} was overwritten; stop the server, and restore a backup")

    def _record_size(self, name: str, size: int) -> None:
        if size < self._sizes[name] and (name != self._log or self._lacks_frames()):
            self._overwritten = name
        self._sizes[name] = size

    def _record_change(self, changed_at: int) -> None:
        header = self._read_header()
        if not _may_follow(header, self._header):
            header = self._read_header()  # in case another process was writing it
        if _may_follow(header, self._header):
            self._changed_at, self._header = changed_at, header
        else:
            self._overwritten = self._opened

    def _read_header(self) -> bytes:
        """Return the header as it is in the file, whatever the log holds.

        A connection reads it, since closing a file of our own would release the locks that SQLite holds on
        it. The connection runs no statement, so it does not open the log.
        """
        try:
            connection = apsw.Connection(self._opened, flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:  # perhaps too many open files: it may work the next time
            raise DatabaseReplaced(f"{Path(self._opened).name} changed, and cannot be read") from error
        try:
            return connection.read("main", 0, 0, HEADER_BYTES)[1]
        finally:
            connection.close()

    def _lacks_frames(self) -> bool:
        """Return whether the log ends before its last frame in use.

        Another process may write or truncate it meanwhile.
        """
        connection = connect_reader(self._path)
        try:
            connection.pragma("journal_mode")  # makes the connection open the log
            while True:
                frames = _count_frames(connection)
                size = os.stat(self._log).st_size
                if frames <= 0 or size >= LOG_HEADER_BYTES + frames * FRAME_BYTES:
                    return False
                if frames == _count_frames(connection):
                    return True
        finally:
            connection.close()


def _may_follow(header: bytes, earlier: bytes) -> bool:
    """Return whether SQLite may have changed one header into the other."""
    return header[CHANGE_COUNTER] >= earlier[CHANGE_COUNTER] and all(
        header[part] == earlier[part] for part in FIXED_PARTS
    )


def _count_frames(connection: apsw.Connection) -> int:
    return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]


def _identify(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
