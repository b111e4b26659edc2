"""Threads in this process's memory: for tests and trials, lost when the process ends."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, NamedTuple

from placet.errors import CheckpointConflict, ThreadBusy, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.saver import EMPTY_THREAD_ID, CheckpointRetention, SavedCheckpoint, Saver


class _Row(NamedTuple):
    rev: int
    stage: Stage
    text: str
    saved_at: datetime
    leased_until: datetime | None


class MemorySaver(Saver):
    """Stores threads as long as this object lives; thread-safe."""

    blocking: ClassVar[bool] = False

    def __init__(
        self, *, retain: CheckpointRetention | None = None, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._retain = retain or CheckpointRetention()
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.Lock()
        self._threads: dict[str, list[_Row]] = {}
        self._closed = False

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        with self._open():
            newest = self._newest(thread_id)
        return _saved_checkpoint_from_row(thread_id, newest) if newest else None

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        with self._open():
            self._append(checkpoint, lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        with self._open():
            newest = self._newest(checkpoint.thread_id)
            if newest and newest.leased_until and newest.leased_until > self._clock():
                raise ThreadBusy
            self._append(checkpoint, lease_for)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._open():
            newest = self._newest(thread_id)
            if newest is None or newest.rev != rev:
                raise CheckpointConflict
            self._threads[thread_id][-1] = newest._replace(leased_until=self._clock() + lease_for)

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        with self._open():
            rows = self._threads.get(thread_id, [])[::-1]
        return [
            _saved_checkpoint_from_row(thread_id, row if index == 0 else row._replace(leased_until=None))
            for index, row in enumerate(rows)
        ]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        with self._open():
            newest = [
                (rows[-1].saved_at, thread_id)
                for thread_id, rows in self._threads.items()
                if rows[-1].stage == stage
            ]
        return [thread_id for _, thread_id in sorted(newest)]

    def release(self, thread_id: str) -> None:
        with self._open():
            self._threads.pop(thread_id, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._threads.clear()

    def _open(self) -> threading.Lock:
        if self._closed:
            raise Unavailable("The saver is closed.")
        return self._lock

    def _newest(self, thread_id: str) -> _Row | None:
        rows = self._threads.get(thread_id)
        return rows[-1] if rows else None

    def _append(self, checkpoint: Checkpoint, lease_for: timedelta | None) -> None:
        if not checkpoint.thread_id:
            raise ValueError(EMPTY_THREAD_ID)
        newest = self._newest(checkpoint.thread_id)
        if (newest.rev if newest else 0) != checkpoint.rev - 1:
            raise CheckpointConflict
        now = self._clock()
        until = None if lease_for is None else now + lease_for
        row = _Row(checkpoint.rev, checkpoint.stage, checkpoint.to_json(), now, until)
        rows = self._threads.setdefault(checkpoint.thread_id, [])
        rows.append(row)
        oldest = None if self._retain.age is None else now - self._retain.age
        rows[:-1] = [
            row for row in rows[-self._retain.count : -1] if oldest is None or row.saved_at >= oldest
        ]


def _saved_checkpoint_from_row(thread_id: str, row: _Row) -> SavedCheckpoint:
    checkpoint = Checkpoint.from_json(row.text, thread_id=thread_id, rev=row.rev, stage=row.stage)
    return SavedCheckpoint(checkpoint=checkpoint, saved_at=row.saved_at, leased_until=row.leased_until)
