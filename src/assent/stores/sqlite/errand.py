"""A thread that waits for the disk, so that the event loop does not have to.

A thread that comes back from the disk needs the interpreter, and a loop that is never idle lets go of it for
instants only: left to chance, that thread may wait for seconds. So while an errand is under way, the loop
hands over by really waiting for a moment: in every idle turn, and now and then between busy ones.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter

HANDOVER_S = 0.00005
SPACING_S = 0.0005  # a busy loop hands over this often
IDLE_TURN_S = 0.00003  # a turn this short did nothing else: the loop has time to wait

Work = Callable[[], object]
Then = Callable[[Exception | None], None]


class Errand:
    """One piece of work for the thread, and what the loop does afterwards."""

    def __init__(self, work: Work, then: Then) -> None:
        self.work = work
        self.then = then
        self.error: Exception | None = None
        self.over = threading.Lock()
        self.over.acquire()


class ErrandThread:
    """Runs one errand at a time; its `then` is called in the loop with what went wrong, or None."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._looked_at = self._handed_over_at = 0.0
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="assent-sqlite", daemon=True)
        self._thread.start()

    def run(self, work: Work, then: Then) -> None:
        """Have `work` done in the thread; `then` is never called before this returns."""
        errand = Errand(work, then)
        self._errands.put(errand)
        self._loop.call_soon(self._hand_over, errand)

    def stop(self) -> None:
        """End the thread once it has nothing left to do."""
        self._errands.put(None)
        self._thread.join()

    def _hand_over(self, errand: Errand) -> None:
        now = perf_counter()
        busy = now - self._looked_at > IDLE_TURN_S and now - self._handed_over_at < SPACING_S
        if not busy and errand.over.acquire(timeout=HANDOVER_S):
            errand.then(errand.error)
            return
        self._looked_at = perf_counter()
        if not busy:
            self._handed_over_at = self._looked_at
        self._loop.call_soon(self._hand_over, errand)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            try:
                errand.work()
            except Exception as error:
                errand.error = error
            errand.over.release()
