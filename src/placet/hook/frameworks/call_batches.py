"""Recording the start and end of calls: calls that start or end together share one write."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from placet.hook.call_leases import CallStart
from placet.hook.gate import Gate

_Batch = dict[str, tuple[Any, asyncio.Future[Any]]]
"""Call id -> its argument of the write, and the future that waits for it."""
BatchWrite = Callable[..., dict[str, Any]]
"""The gate's `begin_all` or `finish_all`."""


class AsyncCallBatches:
    """Batches calls on an event loop: calls of the same loop iteration share one write."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._batches: dict[Any, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(
        self, key: str, call_id: str, *, repeatable: bool, is_only_call: bool = False
    ) -> CallStart:
        """Like the gate's `begin`; the only call of a turn does not wait for others.

        A call that is cancelled meanwhile has not started.
        """
        write_batch = self._at_once if is_only_call else self._together
        return _raise_or_return(await write_batch(self._gate.begin_all, key, call_id, repeatable))

    async def finish(self, key: str, call_id: str, result: str, *, is_only_call: bool = False) -> None:
        """Like the gate's `finish`."""
        write_batch = self._at_once if is_only_call else self._together
        await write_batch(self._gate.finish_all, key, call_id, result)

    async def _at_once(self, write_batch: BatchWrite, key: str, call_id: str, argument: Any) -> Any:
        undo = partial(self._give_back, key)
        return (
            await self._gate.run_blocking(partial(write_batch, key, {call_id: argument}), on_cancel=undo)
        )[call_id]

    async def _together(self, write_batch: BatchWrite, key: str, call_id: str, argument: Any) -> Any:
        loop = asyncio.get_running_loop()
        name = (loop, write_batch.__name__, key)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = {}
            loop.call_soon(self._write, write_batch, key, name)
        elif call_id in batch:  # the same call twice: only one may run it
            return await self._at_once(write_batch, key, call_id, argument)
        # Each call has its own future, because one may be cancelled while the others continue.
        batch[call_id] = argument, loop.create_future()
        waiting = batch[call_id][1]
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            with suppress(Exception):
                found = {call_id: await waiting}
                await self._gate.run_blocking(partial(self._give_back, key, found))
            raise

    def _give_back(self, key: str, found: Mapping[str, Any]) -> None:
        """Undo the start of calls whose caller was cancelled."""
        for call_id, start in found.items():
            if isinstance(start, CallStart) and start.run:
                self._gate.undo_begin(key, call_id)

    def _write(self, write_batch: BatchWrite, key: str, name: Any) -> None:
        batch = self._batches.pop(name)
        work = partial(write_batch, key, {call_id: argument for call_id, (argument, _) in batch.items()})
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
    arguments: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    error: BaseException | None = None

    def write(self, write_batch: BatchWrite, key: str) -> None:
        """Write the calls, and keep the results or the error for the threads that wait for them."""
        try:
            self.found = write_batch(key, self.arguments)
        except BaseException as error:
            self.error = error


class ThreadedCallBatches:
    """Batches calls from threads: while one thread writes, others queue and share the next write."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._pending: dict[Any, _PendingBatch] = {}

    def begin(self, key: str, call_id: str, *, repeatable: bool, owner: Hashable = None) -> CallStart:
        """Like the gate's `begin`, for one of several owners that may work on the turn."""
        write_batch = partial(self._gate.begin_all, owner=owner)
        return _raise_or_return(self._queue_write(("begin", key, owner), write_batch, call_id, repeatable))

    def finish(self, key: str, call_id: str, result: str) -> None:
        """Like the gate's `finish`."""
        self._queue_write(("finish", key, None), self._gate.finish_all, call_id, result)

    def _queue_write(
        self, name: tuple[str, str, Hashable], write_batch: BatchWrite, call_id: str, argument: Any
    ) -> Any:
        with self._lock:
            batch = self._pending.setdefault(name, _PendingBatch())
            if call_id in batch.arguments:  # the same call twice: only one may run it
                batch = _PendingBatch()
            batch.arguments[call_id] = argument
        with self._writing:
            if batch.found is None and batch.error is None:
                self._write(write_batch, name, batch)
        if batch.found is None:
            raise batch.error or RuntimeError("The batch was not written.")
        return batch.found[call_id]

    def _write(self, write_batch: BatchWrite, name: tuple[str, str, Hashable], batch: _PendingBatch) -> None:
        with self._lock:
            if self._pending.get(name) is batch:
                del self._pending[name]
        batch.write(write_batch, name[1])


def _raise_or_return(found: Any) -> CallStart:
    if isinstance(found, Exception):
        raise found
    begun: CallStart = found
    return begun
