"""The marks before and after a call: those of calls that begin or end together are kept in one write."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from assent.hook.gate import ApprovalGate, Begun

logger = logging.getLogger(__name__)
_Batch = dict[str, tuple[Any, asyncio.Future[Any]]]
"""Call -> its mark, and who waits until it is kept."""
ENDS_WITHIN_S = 0.05
"""Calls that end this close to each other are kept in one write."""
Keep = Callable[..., dict[str, Any]]
"""The gate's `begin_all` or `finish_all`."""


class Marks:
    """Marks calls at a gate, on an event loop; whoever comes before the loop turns comes along."""

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._batches: dict[Any, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, key: str, call_id: str, *, repeatable: bool) -> Begun:
        """As the gate's `begin`."""
        return _begun(await self._together(self._gate.begin_all, key, call_id, repeatable))

    async def finish(self, key: str, call_id: str, result: str) -> None:
        """As the gate's `finish`."""
        await self._together(self._gate.finish_all, key, call_id, result)

    async def _together(self, keep: Keep, key: str, call_id: str, mark: Any) -> Any:
        loop = asyncio.get_running_loop()
        name = (loop, keep.__name__, key)
        batch = self._batches.get(name)
        if batch is None:
            batch = self._batches[name] = {}
            loop.call_soon(self._write, keep, key, name)
        elif call_id in batch:  # the same call again: only one of the two may run it
            return (await self._gate.aside(keep, key, {call_id: mark}))[call_id]
        # Each waits by itself: one of the calls may be cancelled while the others go on.
        batch[call_id] = mark, loop.create_future()
        return await batch[call_id][1]

    def _write(self, keep: Keep, key: str, name: Any) -> None:
        batch = self._batches.pop(name)
        work = partial(keep, key, {call_id: mark for call_id, (mark, _) in batch.items()})
        if not self._gate.in_place():
            task = name[0].create_task(self._write_aside(work, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            _tell(batch, work())
        except Exception as error:
            _refuse(batch, error)

    async def _write_aside(self, work: Callable[[], dict[str, Any]], batch: _Batch) -> None:
        try:
            _tell(batch, await self._gate.aside(work))
        except Exception as error:
            _refuse(batch, error)


def _tell(batch: _Batch, found: Mapping[str, Any]) -> None:
    for call_id, (_, waiting) in batch.items():
        if not waiting.done():
            waiting.set_result(found[call_id])


def _refuse(batch: _Batch, error: Exception) -> None:
    for _, waiting in batch.values():
        if not waiting.done():
            waiting.set_exception(error)


@dataclass(slots=True)
class _Line:
    """Calls of one turn that begin while another one writes."""

    marks: dict[str, bool] = field(default_factory=dict)
    found: Mapping[str, Any] | BaseException | None = None


@dataclass(slots=True)
class _Turn:
    """Calls of one turn that run here, and what those answered that have ended but are not kept yet."""

    open: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)


class Queue:
    """Marks calls at a gate, from threads: those of a turn that begin or end together are kept in one write.

    What a call answered is kept when no other of its turn runs any more, or soon: as our own loop does it.
    """

    def __init__(self, gate: ApprovalGate) -> None:
        self._gate = gate
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._lines: dict[str, _Line] = {}
        self._turns: dict[str, _Turn] = {}
        self._keeps_soon = False

    def begin(self, key: str, call_id: str, *, repeatable: bool) -> Begun:
        """As the gate's `begin`."""
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            if call_id in line.marks:  # the same call again: only one of the two may run it
                line = _Line()
            line.marks[call_id] = repeatable
        with self._writing:
            if line.found is None:
                self._write(key, line)
        if isinstance(line.found, BaseException):
            raise line.found
        return _begun((line.found or {})[call_id])

    def finish(self, key: str, call_id: str, result: str) -> None:
        """As the gate's `finish`."""
        self._end(key, call_id, {call_id: result})

    def set_aside(self, key: str, call_id: str) -> None:
        """As the gate's `set_aside`."""
        self._gate.set_aside(key, call_id)
        self._end(key, call_id, {})

    def _write(self, key: str, line: _Line) -> None:
        with self._lock:
            if self._lines.get(key) is line:
                del self._lines[key]
        try:
            line.found = found = self._gate.begin_all(key, line.marks)
        except BaseException as error:
            line.found = error
        else:
            runs = {call_id for call_id, one in found.items() if isinstance(one, Begun) and one.run}
            with self._lock:
                self._turns.setdefault(key, _Turn()).open.update(runs)

    def _end(self, key: str, call_id: str, result: Mapping[str, str]) -> None:
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.open.discard(call_id)
            turn.ended.update(result)
            if not turn.open:
                del self._turns[key]
            starts = bool(turn.open) and not self._keeps_soon
            self._keeps_soon = self._keeps_soon or starts
        if starts:
            threading.Thread(target=self._keep_soon, name="assent-marks", daemon=True).start()
        if not turn.open and turn.ended:
            with self._writing:
                self._gate.finish_all(key, turn.ended)

    def _keep_soon(self) -> None:
        time.sleep(ENDS_WITHIN_S)
        with self._lock:
            self._keeps_soon = False
            ended = {key: dict(turn.ended) for key, turn in self._turns.items() if turn.ended}
        for key, results in ended.items():
            try:
                with self._writing:
                    self._gate.finish_all(key, results)
            except Exception:
                # Whichever call of the turn ends last tries again, and tells of it.
                logger.warning("What calls have answered could not be kept yet.", exc_info=True)


def _begun(found: Any) -> Begun:
    if isinstance(found, Exception):
        raise found
    begun: Begun = found
    return begun
