"""Renewing the leases of long calls, so that other processes do not take over a thread in use."""

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
"""How long a process may be silent before another may take over its thread."""


class Heartbeat:
    """Renews leases every third of their duration, in one thread that starts when it is needed."""

    def __init__(self, lease_for: timedelta) -> None:
        self._lease_for = lease_for
        self.reset()
        _heartbeats.add(self)

    def reset(self) -> None:
        """Reset to no thread and no leases, as a forked process needs."""
        self._renewals: set[_LeaseRenewal] = set()
        self._lock = threading.Lock()
        self._is_running = False

    def renewing(self, saver: Saver, checkpoint: Checkpoint) -> "_LeaseRenewal":
        """Renew the thread's lease while the block runs."""
        return _LeaseRenewal(self, saver, lambda: checkpoint)

    def renewing_latest(self, saver: Saver, newest: Callable[[], Checkpoint]) -> "_LeaseRenewal":
        """Like `renewing`, for a thread that others in this process change meanwhile."""
        return _LeaseRenewal(self, saver, newest)

    def add(self, renewal: "_LeaseRenewal") -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._renewals.add(renewal)
            starts, self._is_running = not self._is_running, True
        if starts:
            threading.Thread(target=self._beat, name="placet-heartbeat", daemon=True).start()

    def remove(self, renewal: "_LeaseRenewal") -> None:
        """Stop renewing this lease."""
        with self._lock:
            self._renewals.discard(renewal)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._lease_for.total_seconds() / 3):
            with self._lock:
                renewal = list(self._renewals)
                if not renewal:
                    self._is_running = False
                    return
            for each in renewal:
                try:
                    checkpoint = each.newest()
                    each.saver.renew(checkpoint.thread_id, checkpoint.rev, lease_for=self._lease_for)
                except Exception as error:
                    # Another process changed the thread, or the storage is down: the next write will fail.
                    logger.debug("lease_not_renewed", exc_info=error)


class _LeaseRenewal:
    """A context manager that renews one thread's lease."""

    __slots__ = ("_heartbeat", "newest", "saver")

    def __init__(self, heartbeat: Heartbeat, saver: Saver, newest: Callable[[], Checkpoint]) -> None:
        self._heartbeat = heartbeat
        self.saver = saver
        self.newest = newest

    def __enter__(self) -> None:
        self._heartbeat.add(self)

    def __exit__(self, *raised: object) -> None:
        self._heartbeat.remove(self)


def _reset_after_fork() -> None:
    for heartbeat in _heartbeats:
        heartbeat.reset()


os.register_at_fork(after_in_child=_reset_after_fork)
