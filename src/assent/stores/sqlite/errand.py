"""A thread that waits for the disk, so that the event loop does not have to.

A thread that comes back from the disk needs the interpreter, and a loop that is never idle lets go of it for
instants only: left to chance, that thread may wait for seconds. So the loop hands over by really waiting:
briefly for every errand, since most are over by then, and now and again for one that takes longer.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

PATIENCE_S = 0.001  # how long the loop waits for an errand before it turns to other work
HANDOVER_S = 0.00005  # how long it stands aside when it expects the errand to take longer
NUDGE_EVERY_S = 0.002
SLOW_SPELL = 32  # errands not waited for after one that took longer

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
        self.left_alone = False
        self.collected = False


class ErrandThread:
    """Runs one errand at a time; its `then` is called in the loop with what went wrong, or None."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slow = 0
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="assent-sqlite", daemon=True)
        self._thread.start()

    def run(self, work: Work, then: Then) -> None:
        """Have `work` done in the thread; `then` is never called before this returns."""
        errand = Errand(work, then)
        self._errands.put(errand)
        patience = HANDOVER_S if self._slow else PATIENCE_S
        self._slow = max(0, self._slow - 1)
        if errand.over.acquire(timeout=patience):
            self._loop.call_soon(self._collect, errand)
            return
        self._slow = self._slow or SLOW_SPELL
        errand.left_alone = True
        self._loop.call_soon(self._nudge, errand)

    def stop(self) -> None:
        """End the thread once it has nothing left to do."""
        self._errands.put(None)
        self._thread.join()

    def _nudge(self, errand: Errand) -> None:
        if errand.collected:
            return
        if errand.over.acquire(timeout=HANDOVER_S):
            self._collect(errand)
        else:
            self._loop.call_later(NUDGE_EVERY_S, self._nudge, errand)

    def _collect(self, errand: Errand) -> None:
        if not errand.collected:
            errand.collected = True
            errand.then(errand.error)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            try:
                errand.work()
            except Exception as error:
                errand.error = error
            errand.over.release()
            if errand.left_alone and not self._tell(errand):
                return

    def _tell(self, errand: Errand) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._collect, errand)
        except RuntimeError:  # the loop was closed without closing the store
            return False
        return True
