"""Threads in one SQLite file: durable, fast, shared by the processes of one machine."""

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from placet.errors import CheckpointConflict, ThreadBusy, Unavailable
from placet.hook.argument_checks import require_path
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.encoding import (
    decode_thread_id,
    duration_to_micros,
    encode_thread_id,
    read_saved,
    to_micros,
)
from placet.hook.savers.saver import CheckpointRetention, SavedCheckpoint, Saver
from placet.hook.savers.sqlite_schema import connect, prepare
from placet.sqlite_outages import SQLITE_OUTAGES

LOCK_TIMEOUT = timedelta(seconds=5)
ALWAYS = 2**62

SYNC, SYNC_LATER = "PRAGMA synchronous = full", "PRAGMA synchronous = normal"
STEP = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
RENEW = """
UPDATE checkpoints SET leased_until = ?1
WHERE
  place = ((SELECT number FROM threads WHERE thread_id = ?2) << 32) + ?3
  AND NOT EXISTS (
    SELECT 1 FROM checkpoints WHERE place = ((SELECT number FROM threads WHERE thread_id = ?2) << 32) + ?3 + 1
  )
"""
RELEASE = "DELETE FROM threads WHERE thread_id = ?"
SELECT_ALL = """
SELECT place & 0xffffffff, stage, text, saved_at, leased_until FROM checkpoints
WHERE
  place > (SELECT number FROM threads WHERE thread_id = ?1) << 32
  AND place < (SELECT number FROM threads WHERE thread_id = ?1) + 1 << 32
ORDER BY place DESC
"""
SELECT_NEWEST = f"{SELECT_ALL} LIMIT 1"
SELECT_BY_STAGE = """
SELECT thread_id FROM {threads} AS t
JOIN checkpoints ON place = (SELECT max(place) FROM checkpoints WHERE place < t.number + 1 << 32)
WHERE stage = ? ORDER BY saved_at, place
"""
SELECT_READY = SELECT_BY_STAGE.format(threads="threads")
SELECT_OPEN = SELECT_BY_STAGE.format(threads="open_threads")
REFUSED = (apsw.SQLITE_CONSTRAINT_TRIGGER, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)
REVS = range(1, 2**32)

_open_savers: "weakref.WeakSet[SqliteSaver]" = weakref.WeakSet()
_inherited_connections: list[
    object
] = []  # connections inherited by fork: using or closing them would damage the parent's


class SqliteSaver(Saver):
    """Saves threads in the SQLite file at `path` on a local disk; threads and processes may share it.

    `lock_timeout` is how long a write waits for another process. Raises SettingsError if the path cannot be
    used, MigrationError if the file is not ours.
    """

    _reader: apsw.Connection | None
    _writer: apsw.Connection | None
    _cursor: apsw.Cursor | None
    """The writer's cursor, reused for every statement."""

    def __init__(
        self,
        path: Path | str,
        *,
        retain: CheckpointRetention | None = None,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._path = require_path("path", path, 'the path of a file, such as "threads.db"')
        retain = retain or CheckpointRetention()
        self._count = retain.count
        self._age = None if retain.age is None else duration_to_micros(retain.age)
        self._lock_timeout_ms = max(1, lock_timeout // timedelta(milliseconds=1))
        self._clock = clock
        self._closed = False
        prepare(self._path, self._lock_timeout_ms)
        self._reset()
        _open_savers.add(self)

    @property
    def unsynced(self) -> Saver:
        return _UnsyncedSaver(self)

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        for row in self._read(SELECT_NEWEST, (encode_thread_id(thread_id),)):
            return read_saved(thread_id, *row)
        return None

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self.write(checkpoint, lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self.write(checkpoint, lease_for, claims=True)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        self.hold(thread_id, rev, lease_for)

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        rows = self._read(SELECT_ALL, (encode_thread_id(thread_id),))
        newest = [read_saved(thread_id, *row) for row in rows[:1]]
        return newest + [read_saved(thread_id, rev, stage, text, at) for rev, stage, text, at, _ in rows[1:]]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        query = SELECT_READY if stage == "ready" else SELECT_OPEN
        return [decode_thread_id(key) for (key,) in self._read(query, (stage,))]

    def release(self, thread_id: str) -> None:
        self.forget(thread_id)

    def close(self) -> None:
        with self._read_lock, self._write_lock:
            self._closed = True
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = self._cursor = None

    def write(
        self,
        checkpoint: Checkpoint,
        lease_for: timedelta | None,
        *,
        claims: bool = False,
        synced: bool = True,
    ) -> None:
        """Save a checkpoint, as `put` or `claim`.

        If not `synced`, it is on disk with the next synced write.
        """
        now, rev, stage = self._read_clock(), checkpoint.rev, checkpoint.stage
        key = encode_thread_id(checkpoint.thread_id)
        step = (
            key,
            rev,
            stage,
            stage != "ready",
            now,
            None if lease_for is None else now + duration_to_micros(lease_for),
            checkpoint.to_json(),
            now if claims else ALWAYS,
            rev - self._count,
            None if self._age is None else now - self._age,
        )
        try:
            if rev not in REVS:
                raise CheckpointConflict
            self._write(STEP, step, synced)
        except (apsw.ConstraintError, CheckpointConflict) as error:
            if getattr(error, "extendedresult", None) not in (*REFUSED, None):
                raise
            raise (ThreadBusy if claims and self._is_held(key, now) else CheckpointConflict) from None

    def hold(self, thread_id: str, rev: int, lease_for: timedelta, *, synced: bool = True) -> None:
        """Extend the lease, as `renew`."""
        if not self._write(
            RENEW,
            (self._read_clock() + duration_to_micros(lease_for), encode_thread_id(thread_id), rev),
            synced,
        ):
            raise CheckpointConflict

    def forget(self, thread_id: str, *, synced: bool = True) -> None:
        """Delete the thread, as `release`."""
        self._write(RELEASE, (encode_thread_id(thread_id),), synced)

    def _is_held(self, key: bytes, now: int) -> bool:
        return any(lease is not None and lease > now for *_, lease in self._read(SELECT_NEWEST, (key,)))

    def _read_clock(self) -> int:
        return time.time_ns() // 1_000 if self._clock is None else to_micros(self._clock())

    def _reset(self) -> None:
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self._reader = self._writer = self._cursor = None
        self._syncs = True

    def _reset_after_fork_in_child(self) -> None:
        _inherited_connections.extend((self._reader, self._writer, self._cursor))
        self._reset()

    def _read(self, query: str, given: tuple[Any, ...]) -> Sequence[Any]:
        try:
            # The writer's connection has the pages cached; while it is in use, read on another connection.
            if self._cursor is not None and self._write_lock.acquire(blocking=False):
                try:
                    if self._cursor is not None:
                        return self._cursor.execute(query, given).fetchall()
                finally:
                    self._write_lock.release()
            with self._read_lock:
                if self._reader is None:
                    self._reader = self._connect()
                return self._reader.execute(query, given).fetchall()
        except SQLITE_OUTAGES as error:
            raise Unavailable("The database cannot be read right now.") from error

    def _write(self, statement: str, given: tuple[Any, ...], synced: bool) -> int:
        """Return how many rows were changed: all of them, on disk if synced, or none."""
        try:
            with self._write_lock:
                if self._writer is None or self._cursor is None:
                    self._writer, self._syncs = self._connect(), True
                    self._cursor = self._writer.cursor()
                if self._syncs is not synced:
                    self._cursor.execute(SYNC if synced else SYNC_LATER)
                    self._syncs = synced
                self._cursor.execute(statement, given)
                return self._writer.changes()
        except SQLITE_OUTAGES as error:
            raise Unavailable from error

    def _connect(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable("The saver is closed.")
        return connect(self._path, self._lock_timeout_ms)


class _UnsyncedSaver(Saver):
    """The threads of a SqliteSaver, written without sync; the next synced write syncs them too."""

    def __init__(self, saver: SqliteSaver) -> None:
        self._saver = saver

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        return self._saver.get(thread_id)

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self._saver.write(checkpoint, lease_for, synced=False)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self._saver.write(checkpoint, lease_for, claims=True, synced=False)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        self._saver.hold(thread_id, rev, lease_for, synced=False)

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        return self._saver.list_checkpoints(thread_id)

    def list_threads(self, stage: Stage) -> Sequence[str]:
        return self._saver.list_threads(stage)

    def release(self, thread_id: str) -> None:
        self._saver.forget(thread_id, synced=False)

    def close(self) -> None:
        self._saver.close()


def _reset_after_fork() -> None:
    for saver in _open_savers:
        saver._reset_after_fork_in_child()


os.register_at_fork(after_in_child=_reset_after_fork)
