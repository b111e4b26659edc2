"""Threads that run tools beside an agent; a tool that never ends cannot hold up the program's exit."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_IDLE_AT_MOST = 8
"""So many threads are kept for the next turn."""


class Workers:
    """Runs functions side by side, as many at once as there are; finished threads are used again."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        """Begin the work at once, in the caller's context."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        self._todo.put((future, lambda: context.run(work)))
        if needs_thread:
            threading.Thread(target=self._serve, name="assent-tool", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            future, work = self._todo.get()
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            with self._lock:
                if self._idle >= _IDLE_AT_MOST:
                    return
                self._idle += 1
            del future, work
