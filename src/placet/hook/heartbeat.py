"""Keeps the leases of long calls alive, so that nobody takes a busy thread for a dead one."""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta

from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.saver import Saver

logger = logging.getLogger(__name__)
_heartbeats: "weakref.WeakSet[Heartbeat]" = weakref.WeakSet()
DEFAULT_LEASE = timedelta(minutes=5)
"""How long a process may be silent before another may take its thread for dead."""


class Heartbeat:
    """Renews the leases of whatever runs, every third of a lease; its one thread starts when it is needed."""

    def __init__(self, lease_for: timedelta) -> None:
        self._lease_for = lease_for
        self.start()
        _heartbeats.add(self)

    def start(self) -> None:
        """Begin without a thread and with nothing to hold, as a process does that was forked."""
        self._held: set[_LeaseRenewal] = set()
        self._lock = threading.Lock()
        self._beats = False

    def holding(self, saver: Saver, checkpoint: Checkpoint) -> "_LeaseRenewal":
        """Hold the thread as long as the block lasts."""
        return _LeaseRenewal(self, saver, lambda: checkpoint)

    def holding_newest(self, saver: Saver, newest: Callable[[], Checkpoint]) -> "_LeaseRenewal":
        """As `holding`, for a thread that others here move on meanwhile."""
        return _LeaseRenewal(self, saver, newest)

    def begin(self, held: "_LeaseRenewal") -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._held.add(held)
            starts, self._beats = not self._beats, True
        if starts:
            threading.Thread(target=self._beat, name="placet-heartbeat", daemon=True).start()

    def end(self, held: "_LeaseRenewal") -> None:
        """Let this lease run out."""
        with self._lock:
            self._held.discard(held)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._lease_for.total_seconds() / 3):
            with self._lock:
                held = list(self._held)
                if not held:
                    self._beats = False
                    return
            for each in held:
                try:
                    checkpoint = each.newest()
                    each.saver.renew(checkpoint.thread_id, checkpoint.rev, lease_for=self._lease_for)
                except Exception as error:
                    # Someone moved it on, or the storage is away: the next write will say so.
                    logger.debug("A lease was not renewed.", exc_info=error)


class _LeaseRenewal:
    """A block that holds a thread."""

    __slots__ = ("_heartbeat", "newest", "saver")

    def __init__(self, heartbeat: Heartbeat, saver: Saver, newest: Callable[[], Checkpoint]) -> None:
        self._heartbeat = heartbeat
        self.saver = saver
        self.newest = newest

    def __enter__(self) -> None:
        self._heartbeat.begin(self)

    def __exit__(self, *raised: object) -> None:
        self._heartbeat.end(self)


def _reset_after_fork() -> None:
    for heartbeat in _heartbeats:
        heartbeat.start()


os.register_at_fork(after_in_child=_reset_after_fork)
