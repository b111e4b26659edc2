"""Steps of an agent's process, at which a test kills it or makes its saver fail.

A step is right before something that others can see: a write, or what a tool does. Between two steps nothing
leaves the process, so that one kill stands for all moments from the one to the other. A kill is kill -9.
"""

import functools
import os
import signal
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from placet.errors import Unavailable
from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.sqlite import SqliteSaver

Disturbance = Literal["kill", "fail"]
LOCK_TIMEOUT = timedelta(seconds=120)


class StepCounter:
    """Counts the steps of this process, and disturbs one of them. Undisturbed, it does nothing."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._number = 0
        self._by: Disturbance = "kill"
        self._lock = threading.Lock()
        self.is_disturbed = False

    def disturb(self, step: int | None, by: Disturbance = "kill") -> None:
        """Disturb the step with this number, counted from 0; None disturbs none."""
        self._left, self._number, self._by, self.is_disturbed = step, step or 0, by, False

    def take(self) -> None:
        """Count a step at which the process may be killed."""
        if self._by == "kill" and self._is_reached():
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def writing(self) -> Any:
        """Count a write. Every second write that fails has taken effect."""
        self.take()
        fails = self._by == "fail" and self._is_reached()
        if not fails or self._number % 2:
            yield
        if fails:
            raise Unavailable("The disk failed.")

    def _is_reached(self) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left >= 0:
                return False
            self._left, self.is_disturbed = None, True
            return True


STEPS = StepCounter()


class SteppingSaver(SqliteSaver):
    """A SqliteSaver whose writes are steps."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime]) -> None:
        super().__init__(path, clock=clock, lock_timeout=LOCK_TIMEOUT)

    def write(self, checkpoint: Checkpoint, *args: Any, **named: Any) -> None:
        """Save a checkpoint; this is a step."""
        with STEPS.writing():
            super().write(checkpoint, *args, **named)

    def hold(self, thread_id: str, rev: int, lease_for: timedelta, *, synced: bool = True) -> None:
        """Take a lease; this is a step."""
        with STEPS.writing():
            super().hold(thread_id, rev, lease_for, synced=synced)

    def forget(self, thread_id: str, *, synced: bool = True) -> None:
        """Delete a thread; this is a step."""
        with STEPS.writing():
            super().forget(thread_id, synced=synced)


def add_step(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the tool, with a step right before it runs."""

    @functools.wraps(tool)
    def run(*args: Any, **named: Any) -> Any:
        STEPS.take()
        return tool(*args, **named)

    return run
