"""Keeps the leases of long calls alive, so that nobody takes a busy thread for a dead one."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from assent.hook.checkpoint import Checkpoint
from assent.hook.savers.saver import Saver

logger = logging.getLogger(__name__)
LEASE = timedelta(minutes=5)
"""How long a process may be silent before another may take its thread for dead."""


class Heartbeat:
    """Renews the leases of whatever runs, every third of a lease; its one thread starts when it is needed."""

    def __init__(self, lease_for: timedelta) -> None:
        self._lease_for = lease_for
        self._held: dict[int, tuple[Saver, Checkpoint]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._beats = False

    @contextmanager
    def holding(self, saver: Saver, checkpoint: Checkpoint) -> Iterator[None]:
        """Hold the thread as long as the block lasts."""
        with self._lock:
            self._next += 1
            number = self._next
            self._held[number] = (saver, checkpoint)
            starts, self._beats = not self._beats, True
        if starts:
            threading.Thread(target=self._beat, name="assent-heartbeat", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                del self._held[number]

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._lease_for.total_seconds() / 3):
            with self._lock:
                held = list(self._held.values())
                if not held:
                    self._beats = False
                    return
            for saver, checkpoint in held:
                try:
                    saver.renew(checkpoint.thread_id, checkpoint.rev, lease_for=self._lease_for)
                except Exception:
                    # Someone moved it on, or the storage is away: the next write will say so.
                    logger.debug("The lease of %s was not renewed.", checkpoint.thread_id)
