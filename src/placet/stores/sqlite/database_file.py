"""Check that the open files of a database are still the ones at its path.

A database that is deleted, moved or replaced stays open, and commits to it succeed. They would be lost when
the process ends, because the next one opens what is at the path then.

Copying another file over it, or truncating it, keeps its inode. SQLite never makes the file smaller, except
with VACUUM, which no command of ours runs. So a smaller file was overwritten.
"""

import os
from pathlib import Path

import apsw

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
        self._files = [
            (os.lstat, opened, _identify(os.lstat(opened))),
            (os.lstat, connection.filename_wal, _identify(os.lstat(connection.filename_wal))),
            (os.lstat, f"{opened}-shm", _identify(os.lstat(f"{opened}-shm"))),
        ]
        if str(self._path) != opened:
            self._files.append((os.stat, str(self._path), self._files[0][2]))
        self._size = os.stat(opened).st_size
        self._is_overwritten = False
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
                if name == self._files[0][1] and found == identity:
                    self._notice_size(status.st_size)
            if found != identity:
                self.is_replaced = True
                happened = "is not the file that was opened" if found else "was deleted or moved"
                raise DatabaseReplaced(f"{Path(name).name} {happened}; put it back, or restart the server")
        self.is_replaced = self._is_overwritten
        if self._is_overwritten:
            name = Path(self._files[0][1]).name
            raise DatabaseReplaced(f"{name} was overwritten; stop the server, and restore a backup")

    def _notice_size(self, size: int) -> None:
        self._is_overwritten = self._is_overwritten or size < self._size
        self._size = size


def _identify(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
