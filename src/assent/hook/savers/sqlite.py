"""Threads in one SQLite file: durable, fast, shared by the processes of one machine."""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from assent.errors import CheckpointConflict, ThreadBusy, Unavailable
from assent.hook.checkpoint import Checkpoint, Stage
from assent.hook.savers.columns import kept, key_of, micros, span, thread_of
from assent.hook.savers.saver import Kept, Retention, Saver
from assent.hook.savers.sqlite_file import OUTAGES, connect, prepare

BUSY_FOR = timedelta(seconds=5)
NEVER = -(2**62)
REV_BITS = 32  # of a checkpoint's place; above them stands its thread's number

SELECT_HEAD = "SELECT number, rev, leased_until FROM threads WHERE thread_id = ?"
INSERT_THREAD = """
INSERT INTO threads (thread_id, rev, stage, saved_at, leased_until) VALUES (?, ?, ?, ?, ?) RETURNING number
"""
MOVE_THREAD = "UPDATE threads SET rev = ?, stage = ?, saved_at = ?, leased_until = ? WHERE number = ?"
INSERT_CHECKPOINT = "INSERT INTO checkpoints (place, rev, stage, saved_at, text) VALUES (?, ?, ?, ?, ?)"
FORGET_EARLIER = "DELETE FROM checkpoints WHERE place >= ? AND place < ? AND (place <= ? OR saved_at < ?)"
RENEW = "UPDATE threads SET leased_until = ? WHERE thread_id = ? AND rev = ?"
SELECT_NEWEST = """
SELECT c.rev, c.stage, c.text, c.saved_at, leased_until
FROM threads JOIN checkpoints AS c ON place = (number << 32) + threads.rev WHERE thread_id = ?
"""
SELECT_ALL = """
SELECT c.rev, c.stage, c.text, c.saved_at, CASE WHEN c.rev = threads.rev THEN leased_until END
FROM threads JOIN checkpoints AS c ON place BETWEEN number << 32 AND (number << 32) + threads.rev
WHERE thread_id = ? ORDER BY place DESC
"""
SELECT_THREADS = "SELECT thread_id FROM threads WHERE stage = ? ORDER BY saved_at, number"
FORGET_CHECKPOINTS = "DELETE FROM checkpoints WHERE place BETWEEN ? AND ?"
FORGET_THREAD = "DELETE FROM threads WHERE number = ?"

_open: "weakref.WeakSet[SqliteSaver]" = weakref.WeakSet()
_synced = ContextVar("synced", default=True)
_inherited: list[object] = []  # connections that came by fork: using or closing them would harm the parent's


class SqliteSaver(Saver):
    """Keeps threads in the SQLite file at `path` on a local disk; threads and processes may share it.

    Raises SettingsError when the place cannot be used, MigrationError when the file is another's.
    """

    _reader: apsw.Connection | None
    _writer: apsw.Connection | None

    def __init__(
        self,
        path: Path | str,
        *,
        retain: Retention | None = None,
        busy_for: timedelta = BUSY_FOR,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._path = Path(path).absolute()
        retain = retain or Retention()
        self._count = retain.count
        self._age = None if retain.age is None else span(retain.age)
        self._busy_ms = max(1, busy_for // timedelta(milliseconds=1))
        self._clock = clock
        self._closed = False
        prepare(self._path, self._busy_ms)
        self._start()
        _open.add(self)

    @property
    def soon(self) -> Saver:
        return _Soon(self)

    def get(self, thread_id: str) -> Kept | None:
        for row in self._read(SELECT_NEWEST, key_of(thread_id)):
            return kept(thread_id, *row)
        return None

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self._append(checkpoint, lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self._append(checkpoint, lease_for, claiming=True)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._transaction() as connection:
            connection.execute(RENEW, (self._now() + span(lease_for), key_of(thread_id), rev))
            if not connection.changes():
                raise CheckpointConflict

    def list(self, thread_id: str) -> Sequence[Kept]:
        return [kept(thread_id, *row) for row in self._read(SELECT_ALL, key_of(thread_id))]

    def threads(self, stage: Stage) -> Sequence[str]:
        return [thread_of(key) for (key,) in self._read(SELECT_THREADS, stage)]

    def release(self, thread_id: str) -> None:
        with self._transaction() as connection:
            if head := connection.execute(SELECT_HEAD, (key_of(thread_id),)).get:
                number, newest, _ = head
                first = number << REV_BITS
                connection.execute(FORGET_CHECKPOINTS, (first, first + newest))
                connection.execute(FORGET_THREAD, (number,))

    def close(self) -> None:
        with self._read_lock, self._write_lock:
            self._closed = True
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = None

    def _append(self, checkpoint: Checkpoint, lease_for: timedelta | None, *, claiming: bool = False) -> None:
        rev, stage, text = checkpoint.rev, checkpoint.stage, checkpoint.to_json()
        key = key_of(checkpoint.thread_id)
        with self._transaction() as connection:
            execute = connection.execute
            number, newest, leased_until = execute(SELECT_HEAD, (key,)).get or (None, 0, None)
            now = self._now()
            if claiming and leased_until is not None and leased_until > now:
                raise ThreadBusy
            if newest != rev - 1:
                raise CheckpointConflict
            until = None if lease_for is None else now + span(lease_for)
            if number is None:
                number = execute(INSERT_THREAD, (key, rev, stage, now, until)).get
            else:
                execute(MOVE_THREAD, (rev, stage, now, until, number))
            first = number << REV_BITS
            execute(INSERT_CHECKPOINT, (first + rev, rev, stage, now, text))
            if rev > 1:
                oldest = NEVER if self._age is None else now - self._age
                execute(FORGET_EARLIER, (first, first + rev, first + rev - self._count, oldest))

    def _now(self) -> int:
        return time.time_ns() // 1_000 if self._clock is None else micros(self._clock())

    def _start(self) -> None:
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self._reader = self._writer = None

    def _restart(self) -> None:
        _inherited.extend((self._reader, self._writer))
        self._start()

    def _read(self, query: str, key: bytes | str) -> Sequence[Any]:
        try:
            with self._read_lock:
                if self._reader is None:
                    self._reader = self._connect()
                rows: Sequence[Any] = self._reader.execute(query, (key,)).fetchall()
                return rows
        except OUTAGES as error:
            raise Unavailable("The database cannot be read right now.") from error

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        """Write alone; what is written stays as a whole, on disk unless nobody waits, or leaves no trace."""
        try:
            with self._write_lock:
                if self._writer is None:
                    self._writer = self._connect()
                connection = self._writer
                connection.pragma("synchronous", "full" if _synced.get() else "normal")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except OUTAGES as error:
            raise Unavailable from error

    def _connect(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable("The saver is closed.")
        return connect(self._path, self._busy_ms)


class _Soon(Saver):
    """The threads of a SqliteSaver; the next synced write brings the whole log to disk, and these with it."""

    def __init__(self, saver: SqliteSaver) -> None:
        self._saver = saver

    def get(self, thread_id: str) -> Kept | None:
        return self._saver.get(thread_id)

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        with self._unsynced():
            self._saver.put(checkpoint, lease_for=lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        with self._unsynced():
            self._saver.claim(checkpoint, lease_for=lease_for)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._unsynced():
            self._saver.renew(thread_id, rev, lease_for=lease_for)

    def list(self, thread_id: str) -> Sequence[Kept]:
        return self._saver.list(thread_id)

    def threads(self, stage: Stage) -> Sequence[str]:
        return self._saver.threads(stage)

    def release(self, thread_id: str) -> None:
        with self._unsynced():
            self._saver.release(thread_id)

    def close(self) -> None:
        self._saver.close()

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        before = _synced.set(False)
        try:
            yield
        finally:
            _synced.reset(before)


def _restart_after_fork() -> None:
    for saver in _open:
        saver._restart()


os.register_at_fork(after_in_child=_restart_after_fork)
