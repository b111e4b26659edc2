"""A thread that waits for the disk, so that the event loop does not have to.

The thread needs the interpreter to set out and to come back. A loop that waits for its sockets has let go of
it; one that is never idle lets go for instants only, and left to chance the thread may wait for seconds. So
the loop hands over by really waiting for a moment: when it sends the thread off, when it can expect the
thread back, and now and then from there on.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

HANDOVER_S = 0.00005
SPACING_S = 0.001  # how often a loop hands over that is never idle; event loops count in milliseconds
EARLY = 0.75  # of the usual time: looking late would make it seem that errands take as long
LATEST_S = 0.02

Work = Callable[[], object]
Then = Callable[[Exception | None], None]


class Errand:
    """One piece of work for the thread, and what the loop does afterwards."""

    def __init__(self, work: Work, then: Then, sent_at: float) -> None:
        self.work = work
        self.then = then
        self.sent_at = sent_at
        self.error: Exception | None = None
        self.begun = _held_lock()
        self.over = _held_lock()
        self.collected = False


class ErrandThread:
    """Runs one errand at a time; its `then` is called in the loop with what went wrong, or None."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._usual_s = 0.0
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="placet-sqlite", daemon=True)
        self._thread.start()

    def run(self, work: Work, then: Then) -> None:
        """Have `work` done in the thread; `then` is never called before this returns."""
        errand = Errand(work, then, self._loop.time())
        self._errands.put(errand)
        errand.begun.acquire(timeout=HANDOVER_S)
        expected = min(EARLY * self._usual_s, LATEST_S)
        self._loop.call_later(max(expected, SPACING_S), self._hand_over, errand)

    def stop(self) -> None:
        """End the thread once it has nothing left to do."""
        self._errands.put(None)
        self._thread.join()

    def _hand_over(self, errand: Errand) -> None:
        if errand.collected:
            return
        if errand.over.acquire(timeout=HANDOVER_S):
            self._collect(errand)
        else:
            self._loop.call_later(SPACING_S, self._hand_over, errand)

    def _collect(self, errand: Errand) -> None:
        if not errand.collected:
            errand.collected = True
            self._usual_s += (self._loop.time() - errand.sent_at - self._usual_s) / 8
            errand.then(errand.error)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            errand.begun.release()
            try:
                errand.work()
            except Exception as error:
                errand.error = error
            errand.over.release()
            with suppress(RuntimeError):  # the loop is gone, and nobody waits any more
                self._loop.call_soon_threadsafe(self._collect, errand)


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
