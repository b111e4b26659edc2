"""Threads that run tools beside an agent; a tool that never ends cannot hold up the program's exit."""

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from queue import SimpleQueue
from time import monotonic
from typing import Any

_IDLE_AT_MOST = 8
"""So many threads are kept for the next turn."""
_NO_TIME_S = 0.001
Done = Callable[[Any, BaseException | None], object]
"""Told what came of the work: its result, or what it raised."""


class Workers:
    """Runs functions side by side, as many at once as there are; finished threads are used again."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], Any], Done]] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def begin(self, work: Callable[[], Any], done: Done) -> None:
        """Begin the work at once, in the caller's context; `done` is called in the thread that did it."""
        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        context = contextvars.copy_context()
        self._todo.put((lambda: context.run(work), done))
        if needs_thread:
            threading.Thread(target=self._serve, name="assent-tool", daemon=True).start()

    def share(self, tasks: Iterable[Callable[[], object]]) -> None:
        """Begin all of the tasks at once, in this thread too, which takes on more while they take no time.

        No task may raise. Returns when nothing is left to begin here; others may still be running.
        """
        _Shared(self, tasks).work(patience=_NO_TIME_S)

    async def run(self, work: Callable[[], Any]) -> Any:
        """What the work returns or raises, awaited on an event loop."""
        import asyncio
        from concurrent.futures import Future

        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.begin(work, done)
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        while True:
            work, done = self._todo.get()
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with self._lock:
                stays = self._idle < _IDLE_AT_MOST
                self._idle += stays
            done(result, error)
            if not stays:
                return
            del work, done, result, error


class _Shared:
    """Tasks that several threads work off. While one is left, a thread is on its way to it: never two, since
    waking a thread takes longer than a task that ends at once."""

    def __init__(self, workers: Workers, tasks: Iterable[Callable[[], object]]) -> None:
        self._workers = workers
        self._tasks = deque(tasks)
        self._lock = threading.Lock()
        self._called = False

    def work(self, *, patience: float = inf) -> None:
        last = monotonic() + patience
        while (task := self._next()) is not None:
            task()
            if monotonic() > last:
                return

    def _next(self) -> Callable[[], object] | None:
        with self._lock:
            if not self._tasks:
                return None
            task = self._tasks.popleft()
            calls = bool(self._tasks) and not self._called
            self._called = self._called or calls
        if calls:
            self._workers.begin(self._help, lambda result, error: None)
        return task

    def _help(self) -> None:
        with self._lock:
            self._called = False
        self.work()
