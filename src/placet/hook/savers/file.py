"""Threads as files in one folder: one file per thread, replaced as a whole.

A file holds two lines for each saved checkpoint, newest first: its columns, then its text.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from placet.errors import CheckpointConflict, SettingsError, ThreadBusy, Unavailable
from placet.hook.argument_checks import require_path
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.encoding import (
    build_file_name,
    digest_thread_id,
    duration_to_micros,
    read_saved,
    to_micros,
)
from placet.hook.savers.saver import CheckpointRetention, SavedCheckpoint, Saver

logger = logging.getLogger(__name__)
LOCK_TIMEOUT = timedelta(seconds=5)
LOCK_RETRY_S = 0.002
SUFFIX = ".thread"
FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # on systems where fsync stops at the drive's cache

Columns = dict[str, Any]
Pair = tuple[Columns, bytes]
"""A checkpoint's columns, and its text as stored in the file."""


class FileSaver(Saver):
    """Saves threads in a folder on a local disk; several threads and processes may use it at once.

    `lock_timeout` is how long a write waits for another process. Raises SettingsError when the folder cannot
    be used.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        retain: CheckpointRetention | None = None,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._folder = require_path("folder", folder, 'the path of a folder, such as "threads"')
        self._retain = retain or CheckpointRetention()
        self._lock_timeout_s = lock_timeout.total_seconds()
        self._clock = clock
        self._closed = False
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"The folder {folder} cannot be used: {error.strerror}.") from error

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        newest = next(self._read_pairs(thread_id), None)
        return None if newest is None else _saved_checkpoint_from_columns(thread_id, *newest)

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self._append(checkpoint, lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self._append(checkpoint, lease_for, claiming=True)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._lock_thread(thread_id):
            pairs = list(self._read_pairs(thread_id))
            if not pairs or pairs[0][0]["rev"] != rev:
                raise CheckpointConflict
            columns, text = pairs[0]
            until = self._read_clock() + duration_to_micros(lease_for)
            self._replace(thread_id, [({**columns, "leased_until": until}, text), *pairs[1:]])

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        pairs = list(self._read_pairs(thread_id))
        return [
            _saved_checkpoint_from_columns(
                thread_id, columns if place == 0 else {**columns, "leased_until": None}, text
            )
            for place, (columns, text) in enumerate(pairs)
        ]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        self._check_open()
        with _translate_errors():
            paths = [entry.path for entry in os.scandir(self._folder) if entry.name.endswith(SUFFIX)]
        heads = filter(None, map(_read_newest_columns, paths))
        matching = [(head["saved_at"], head["thread_id"]) for head in heads if head["stage"] == stage]
        return [thread_id for _, thread_id in sorted(matching)]

    def release(self, thread_id: str) -> None:
        with self._lock_thread(thread_id), _translate_errors():
            with suppress(FileNotFoundError):
                self._build_path(thread_id).unlink()
            self._sync_folder()

    def close(self) -> None:
        self._closed = True

    def _append(self, checkpoint: Checkpoint, lease_for: timedelta | None, *, claiming: bool = False) -> None:
        thread_id = checkpoint.thread_id
        text = checkpoint.to_json().encode("ascii")
        with self._lock_thread(thread_id):
            pairs = list(self._read_pairs(thread_id))
            newest = pairs[0][0] if pairs else {"rev": 0, "leased_until": None}
            now = self._read_clock()
            if claiming and newest["leased_until"] is not None and newest["leased_until"] > now:
                raise ThreadBusy
            if newest["rev"] != checkpoint.rev - 1:
                raise CheckpointConflict
            columns = {
                "thread_id": thread_id,
                "rev": checkpoint.rev,
                "stage": checkpoint.stage,
                "saved_at": now,
                "leased_until": None if lease_for is None else now + duration_to_micros(lease_for),
            }
            self._replace(thread_id, [(columns, text), *self._select_retained(pairs, now)])

    def _select_retained(self, pairs: Sequence[Pair], now: int) -> Sequence[Pair]:
        earlier = pairs[: self._retain.count - 1]
        if self._retain.age is None:
            return earlier
        oldest = now - duration_to_micros(self._retain.age)
        return [pair for pair in earlier if pair[0]["saved_at"] >= oldest]

    def _replace(self, thread_id: str, pairs: Sequence[Pair]) -> None:
        """Write the whole file again, synced to disk before it replaces the old one."""
        path = self._build_path(thread_id)
        written = path.with_suffix(".new")  # always this name, so that a leftover of a crash is overwritten
        with _translate_errors():
            try:
                with open(written, "wb", opener=_open_private) as file:
                    for columns, text in pairs:
                        file.writelines((json.dumps(columns).encode("ascii"), b"\n", text, b"\n"))
                    file.flush()
                    _sync(file.fileno())
                os.replace(written, path)
            except OSError:
                written.unlink(missing_ok=True)
                raise
            self._sync_folder()

    def _read_pairs(self, thread_id: str) -> Iterator[Pair]:
        self._check_open()
        path = self._build_path(thread_id)
        with _translate_errors():
            try:
                file = path.open("rb")
            except FileNotFoundError:
                return
            with file:
                line = file.readline()
                while True:
                    yield _parse_columns(line, path), _read_text_line(file, path)
                    if not (line := file.readline()):
                        return

    def _build_path(self, thread_id: str) -> Path:
        return self._folder / f"{build_file_name(thread_id)}{SUFFIX}"

    def _read_clock(self) -> int:
        return time.time_ns() // 1_000 if self._clock is None else to_micros(self._clock())

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            _sync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _lock_thread(self, thread_id: str) -> Iterator[None]:
        """Lock this thread, and those that share the first digit of its digest."""
        self._check_open()
        with _translate_errors():
            lock = os.open(
                self._folder / f".lock-{digest_thread_id(thread_id)[0]}", os.O_CREAT | os.O_RDWR, 0o600
            )
        try:
            self._lock(lock)
            yield
        finally:
            os.close(lock)

    def _lock(self, lock: int) -> None:
        patience = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= patience:
                    raise Unavailable(
                        "Another process holds the folder's lock. Nothing was recorded; try again."
                    ) from None
                time.sleep(LOCK_RETRY_S)
            except OSError as error:
                raise Unavailable from error
            else:
                return

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("The saver is closed.")


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync(file: int) -> None:
    if FULL_SYNC is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, FULL_SYNC)


def _parse_columns(line: bytes, path: Path) -> Columns:
    try:
        columns: Columns = json.loads(line)
        columns["thread_id"], columns["rev"], columns["stage"], columns["saved_at"], columns["leased_until"]
    except (ValueError, TypeError, KeyError) as error:
        raise _build_damage_error(path) from error
    return columns


def _read_text_line(file: BinaryIO, path: Path) -> bytes:
    text = file.readline()
    if not text.endswith(b"\n"):
        raise _build_damage_error(path)
    return text[:-1]


def _build_damage_error(path: Path) -> Unavailable:
    return Unavailable(f"The file {path.name} is damaged; restore it, or release its thread.")


def _read_newest_columns(path: str) -> Columns | None:
    """Return the columns of a thread's newest checkpoint; None if it was released, or is damaged."""
    with _translate_errors():
        try:
            with open(path, "rb") as file:
                line = file.readline()
        except FileNotFoundError:
            return None
    try:
        return _parse_columns(line, Path(path))
    except Unavailable as error:  # one damaged file must not hide the others
        logger.warning("checkpoint_file_damaged error=%s", error.message)
        return None


def _saved_checkpoint_from_columns(thread_id: str, columns: Columns, text: bytes) -> SavedCheckpoint:
    return read_saved(
        thread_id,
        columns["rev"],
        columns["stage"],
        text.decode("ascii"),
        columns["saved_at"],
        columns["leased_until"],
    )
