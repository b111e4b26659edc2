"""A thread that waits for the disk, so that the event loop does not have to.

The thread needs the interpreter lock to start and to finish. An event loop that waits for its sockets has
released the lock. A loop that is always busy releases it only for instants, and the thread could wait for
seconds. So the loop waits for a short moment on purpose: when it starts a job, when the job is expected to be
done, and at intervals from then on.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

YIELD_S = 0.00005
RETRY_S = 0.001  # event loops count in milliseconds
EARLY = 0.75  # of the usual duration: checking late would make the job seem to take as long as the check
MAX_EXPECTED_S = 0.02

ThreadWork = Callable[[], object]
Callback = Callable[[Exception | None], None]


class WriteJob:
    """One piece of work for the thread, and the callback that the event loop runs afterwards."""

    def __init__(self, work: ThreadWork, callback: Callback, started_at: float) -> None:
        self.work = work
        self.callback = callback
        self.started_at = started_at
        self.error: Exception | None = None
        self.begun = _create_locked_lock()
        self.done = _create_locked_lock()
        self.collected = False

    def run(self) -> None:
        """Do the work in the thread, and keep its error."""
        self.begun.release()
        try:
            self.work()
        except Exception as error:
            self.error = error
        self.done.release()

    def collect(self) -> bool:
        """Return whether this is the first call; the job's callback runs once."""
        first, self.collected = not self.collected, True
        return first


class WorkerThread:
    """Runs one job at a time. The callback runs in the event loop with the job's error, or None."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._usual_s = 0.0
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run_jobs, name="placet-sqlite", daemon=True)
        self._thread.start()

    def run(self, work: ThreadWork, callback: Callback) -> None:
        """Run `work` in the thread. `callback` is never called before this returns."""
        job = WriteJob(work, callback, self._loop.time())
        self._jobs.put(job)
        job.begun.acquire(timeout=YIELD_S)
        expected = min(EARLY * self._usual_s, MAX_EXPECTED_S)
        self._loop.call_later(max(expected, RETRY_S), self._wait_for, job)

    def stop(self) -> None:
        """End the thread once it has finished its jobs."""
        self._jobs.put(None)
        self._thread.join()

    def _wait_for(self, job: WriteJob) -> None:
        if job.collected:
            return
        if job.done.acquire(timeout=YIELD_S):
            self._collect(job)
        else:
            self._loop.call_later(RETRY_S, self._wait_for, job)

    def _collect(self, job: WriteJob) -> None:
        if job.collect():
            self._usual_s += (self._loop.time() - job.started_at - self._usual_s) / 8
            job.callback(job.error)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._collect, job)


def _create_locked_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
