"""Daemon threads that run tools; a tool that never ends cannot delay the program's exit."""

import contextvars
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any

_MAX_IDLE_THREADS = 8
"""How many idle threads are kept for the next turn."""
_INLINE_BUDGET_S = 0.001
_POLL_INTERVAL_S = 0.005
"""Pause between two checks for shared tasks: the time that Python lets a thread run undisturbed."""
_instances: "weakref.WeakSet[Workers]" = weakref.WeakSet()
DoneCallback = Callable[[Any, BaseException | None], object]
"""Called with the result of the work, or the error it raised."""


class Workers:
    """Runs functions in parallel, with as many threads as needed; idle threads are reused."""

    def __init__(self) -> None:
        self.start()
        _instances.add(self)

    def start(self) -> None:
        """Reset to no threads, as a process needs that was forked from one with threads."""
        self._todo: SimpleQueue[tuple[Callable[[], Any], DoneCallback]] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()
        self._shared: list[_SharedTasks] = []
        self._watching = False

    def begin(self, work: Callable[[], Any], done: DoneCallback) -> None:
        """Start the work in the caller's context; `done` is called in the thread that ran it."""
        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        context = contextvars.copy_context()
        self._todo.put((lambda: context.run(work), done))
        if needs_thread:
            threading.Thread(target=self._serve, name="placet-tool", daemon=True).start()

    def share(self, tasks: Sequence[Callable[[], object]]) -> None:
        """Start all tasks; this thread runs tasks itself while they are quick.

        No task may raise. Returns when every task has started; some may still be running.
        """
        if len(tasks) > 1:
            shared = _SharedTasks(self, tasks)
            self._watch(shared)
            shared.work()
        else:
            for task in tasks:
                task()

    def _watch(self, shared: "_SharedTasks") -> None:
        with self._lock:
            self._shared.append(shared)
            if self._watching:
                return
            self._watching = True
        self.begin(self._start_delayed, _ignore_result)

    def _start_delayed(self) -> None:
        """Start tasks that wait behind a slow one.

        One thread checks at once when tasks arrive after a pause, and then repeatedly while more
        arrive: waking a thread for every turn would take longer than the calls of a quick turn.
        """
        while True:
            with self._lock:
                shared, self._shared = self._shared, []
                if not shared:
                    self._watching = False
                    return
            for each in shared:
                each.request_helper()
            del shared
            sleep(_POLL_INTERVAL_S)

    async def run(
        self,
        work: Callable[[], Any],
        *,
        to_the_end: bool = False,
        undo: Callable[[Any], object] | None = None,
    ) -> Any:
        """Return what the work returns or raises, awaited on an event loop.

        A cancelled caller continues at once, or, with `to_the_end`, when the work has ended, or, with
        `undo`, when its result was undone.
        """
        import asyncio
        from concurrent.futures import Future

        future: Future[tuple[Any, BaseException | None]] = Future()
        future.set_running_or_notify_cancel()
        self.begin(work, lambda result, error: future.set_result((result, error)))
        # Raised here, not by the future: a future never completes if it is given a StopIteration.
        try:
            result, error = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if to_the_end or undo is not None:
                result, error = await asyncio.wrap_future(future)
                if undo is not None and error is None:
                    await self.run(partial(undo, result))
            raise
        if error is not None:
            raise error
        return result

    def _serve(self) -> None:
        while True:
            work, done = self._todo.get()
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with self._lock:
                stays = self._idle < _MAX_IDLE_THREADS
                self._idle += stays
            done(result, error)
            if not stays:
                return
            del work, done, result, error


class _SharedTasks:
    """Tasks that several threads work on. While tasks are left, exactly one helper thread is on its way."""

    def __init__(self, workers: Workers, tasks: Sequence[Callable[[], object]]) -> None:
        self._workers = workers
        self._tasks = deque(tasks)
        self._lock = threading.Lock()
        self._helper_requested = False

    def work(self) -> None:
        """Run quick tasks here; when one is slow, leave the rest to helper threads."""
        last = monotonic() + _INLINE_BUDGET_S
        while (task := self._take_next()) is not None:
            task()
            if monotonic() > last:
                self.request_helper()
                return

    def request_helper(self) -> None:
        """Have another thread take the next task, if one is left."""
        with self._lock:
            calls = bool(self._tasks) and not self._helper_requested
            self._helper_requested = self._helper_requested or calls
        if calls:
            self._workers.begin(self._run_as_helper, _ignore_result)

    def _run_as_helper(self) -> None:
        with self._lock:
            self._helper_requested = False
        while (task := self._take_next()) is not None:
            self.request_helper()
            task()

    def _take_next(self) -> Callable[[], object] | None:
        try:
            return self._tasks.popleft()
        except IndexError:
            return None


def _ignore_result(result: Any, error: BaseException | None) -> None:
    return


def _reset_after_fork() -> None:
    for workers in _instances:
        workers.start()


os.register_at_fork(after_in_child=_reset_after_fork)
