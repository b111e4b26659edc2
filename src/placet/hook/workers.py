"""Threads that run tools beside an agent; a tool that never ends cannot hold up the program's exit."""

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
"""So many threads are kept for the next turn."""
_INLINE_BUDGET_S = 0.001
_POLL_INTERVAL_S = 0.005
"""Between two looks at tasks that come in quick succession: so long Python lets a thread run undisturbed."""
_instances: "weakref.WeakSet[Workers]" = weakref.WeakSet()
DoneCallback = Callable[[Any, BaseException | None], object]
"""Told what came of the work: its result, or what it raised."""


class Workers:
    """Runs functions side by side, as many at once as there are; finished threads are used again."""

    def __init__(self) -> None:
        self.start()
        _instances.add(self)

    def start(self) -> None:
        """Begin without a thread, as a process does that was forked from one with threads."""
        self._todo: SimpleQueue[tuple[Callable[[], Any], DoneCallback]] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()
        self._shared: list[_SharedTasks] = []
        self._looks = False

    def begin(self, work: Callable[[], Any], done: DoneCallback) -> None:
        """Begin the work at once, in the caller's context; `done` is called in the thread that did it."""
        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        context = contextvars.copy_context()
        self._todo.put((lambda: context.run(work), done))
        if needs_thread:
            threading.Thread(target=self._serve, name="placet-tool", daemon=True).start()

    def share(self, tasks: Sequence[Callable[[], object]]) -> None:
        """Begin all of the tasks, in this thread too, which takes on more while they take no time.

        No task may raise. Returns when nothing is left to begin here; others may still be running.
        """
        if len(tasks) > 1:
            shared = _SharedTasks(self, tasks)
            self._look_after(shared)
            shared.work()
        else:
            for task in tasks:
                task()

    def _look_after(self, shared: "_SharedTasks") -> None:
        with self._lock:
            self._shared.append(shared)
            if self._looks:
                return
            self._looks = True
        self.begin(self._look, _ignore_result)

    def _look(self) -> None:
        """Have the tasks begun that wait for one which takes its time.

        One thread looks, at once when tasks come after a pause, and then again while more come: to wake one
        for every turn would take longer than the calls of a turn that end at once.
        """
        while True:
            with self._lock:
                shared, self._shared = self._shared, []
                if not shared:
                    self._looks = False
                    return
            for each in shared:
                each.call()
            del shared
            sleep(_POLL_INTERVAL_S)

    async def run(
        self,
        work: Callable[[], Any],
        *,
        to_the_end: bool = False,
        undo: Callable[[Any], object] | None = None,
    ) -> Any:
        """What the work returns or raises, awaited on an event loop.

        Who is cancelled meanwhile goes on at once, or, `to_the_end`, when the work is over, or when what it
        returned is undone.
        """
        import asyncio
        from concurrent.futures import Future

        future: Future[tuple[Any, BaseException | None]] = Future()
        future.set_running_or_notify_cancel()
        self.begin(work, lambda result, error: future.set_result((result, error)))
        # Raised here, not by the future: one that is given a StopIteration is never done.
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
    """Tasks that several threads work off. While one is left, a thread is on its way to it: never two."""

    def __init__(self, workers: Workers, tasks: Sequence[Callable[[], object]]) -> None:
        self._workers = workers
        self._tasks = deque(tasks)
        self._lock = threading.Lock()
        self._called = False

    def work(self) -> None:
        """Work off what takes no time; when it does, the rest is others'."""
        last = monotonic() + _INLINE_BUDGET_S
        while (task := self._next()) is not None:
            task()
            if monotonic() > last:
                self.call()
                return

    def call(self) -> None:
        """Have another thread take the next task, if one is left."""
        with self._lock:
            calls = bool(self._tasks) and not self._called
            self._called = self._called or calls
        if calls:
            self._workers.begin(self._help, _ignore_result)

    def _help(self) -> None:
        with self._lock:
            self._called = False
        while (task := self._next()) is not None:
            self.call()
            task()

    def _next(self) -> Callable[[], object] | None:
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
