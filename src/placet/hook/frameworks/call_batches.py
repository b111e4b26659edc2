"""The marks before and after a call: those of calls that begin or end together are kept in one write."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from placet.hook.call_leases import CallStart
from placet.hook.gate import ApprovalGate

_Batch = dict[str, tuple[Any, asyncio.Future[Any]]]
"""Call -> its mark, and who waits until it is kept."""
BatchWrite = Callable[..., dict[str, Any]]
"""The gate's `begin_all` or `finish_all`."""


class AsyncCallBatches:
    """Marks calls at a gate, on an event loop; whoever comes before the loop turns comes along."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._batches: dict[Any, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, key: str, call_id: str, *, repeatable: bool, alone: bool = False) -> CallStart:
        """As the gate's `begin`; a call that is alone in its turn waits for no others.

        One that is cancelled meanwhile has not begun.
        """
        keep = self._at_once if alone else self._together
        return _raise_or_return(await keep(self._gate.begin_all, key, call_id, repeatable))

    async def finish(self, key: str, call_id: str, result: str, *, alone: bool = False) -> None:
        """As the gate's `finish`."""
        keep = self._at_once if alone else self._together
        await keep(self._gate.finish_all, key, call_id, result)

    async def _at_once(self, keep: BatchWrite, key: str, call_id: str, mark: Any) -> Any:
        undo = partial(self._give_back, key)
        return (await self._gate.run_blocking(partial(keep, key, {call_id: mark}), on_cancel=undo))[call_id]

    async def _together(self, keep: BatchWrite, key: str, call_id: str, mark: Any) -> Any:
        loop = asyncio.get_running_loop()
        name = (loop, keep.__name__, key)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = {}
            loop.call_soon(self._write, keep, key, name)
        elif call_id in batch:  # the same call again: only one of the two may run it
            return await self._at_once(keep, key, call_id, mark)
        # Each waits by itself: one of the calls may be cancelled while the others go on.
        batch[call_id] = mark, loop.create_future()
        waiting = batch[call_id][1]
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            with suppress(Exception):
                found = {call_id: await waiting}
                await self._gate.run_blocking(partial(self._give_back, key, found))
            raise

    def _give_back(self, key: str, found: Mapping[str, Any]) -> None:
        """Nobody is left to run what was begun here."""
        for call_id, told in found.items():
            if isinstance(told, CallStart) and told.run:
                self._gate.undo_begin(key, call_id)

    def _write(self, keep: BatchWrite, key: str, name: Any) -> None:
        batch = self._batches.pop(name)
        work = partial(keep, key, {call_id: mark for call_id, (mark, _) in batch.items()})
        if not self._gate.runs_inline():
            task = name[0].create_task(self._write_in_thread(work, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            _resolve_batch(batch, work())
        except Exception as error:
            _fail_batch(batch, error)

    async def _write_in_thread(self, work: Callable[[], dict[str, Any]], batch: _Batch) -> None:
        try:
            _resolve_batch(batch, await self._gate.run_blocking(work))
        except Exception as error:
            _fail_batch(batch, error)


def _resolve_batch(batch: _Batch, found: Mapping[str, Any]) -> None:
    for call_id, (_, waiting) in batch.items():
        if not waiting.done():
            waiting.set_result(found[call_id])


def _fail_batch(batch: _Batch, error: Exception) -> None:
    for _, waiting in batch.values():
        if not waiting.done():
            waiting.set_exception(error)


@dataclass(slots=True)
class _PendingBatch:
    marks: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    error: BaseException | None = None


class ThreadedCallBatches:
    """Marks calls at a gate, from threads: while one of them writes, others line up and write as one."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._lines: dict[Any, _PendingBatch] = {}

    def begin(self, key: str, call_id: str, *, repeatable: bool, owner: Hashable = None) -> CallStart:
        """As the gate's `begin`, for one of several who may work on the turn."""
        keep = partial(self._gate.begin_all, owner=owner)
        return _raise_or_return(self._in_turn(("begin", key, owner), keep, call_id, repeatable))

    def finish(self, key: str, call_id: str, result: str) -> None:
        """As the gate's `finish`."""
        self._in_turn(("finish", key, None), self._gate.finish_all, call_id, result)

    def _in_turn(self, name: tuple[str, str, Hashable], keep: BatchWrite, call_id: str, mark: Any) -> Any:
        with self._lock:
            line = self._lines.setdefault(name, _PendingBatch())
            if call_id in line.marks:  # the same call again: only one of the two may run it
                line = _PendingBatch()
            line.marks[call_id] = mark
        with self._writing:
            if line.found is None and line.error is None:
                self._write(keep, name, line)
        if line.found is None:
            raise line.error or RuntimeError("Nothing was kept.")
        return line.found[call_id]

    def _write(self, keep: BatchWrite, name: tuple[str, str, Hashable], line: _PendingBatch) -> None:
        with self._lock:
            if self._lines.get(name) is line:
                del self._lines[name]
        try:
            line.found = keep(name[1], line.marks)
        except BaseException as error:
            line.error = error


def _raise_or_return(found: Any) -> CallStart:
    if isinstance(found, Exception):
        raise found
    begun: CallStart = found
    return begun
