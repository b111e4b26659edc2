"""Processes that are killed at the step they were told, and the forks they live in; a kill is kill -9.

A step is right before something that others can see: a write, or what a tool does. Between two steps nothing
leaves the process, so that one kill stands for all moments from the one to the other.
"""

import functools
import os
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from placet.hook import SqliteSaver
from placet.hook.checkpoint import Checkpoint

LIFE_LIMIT_S = 120
RACERS = 8


class Fate:
    """When this process dies: at which of its steps, counted from 0; by itself it lives on."""

    def __init__(self) -> None:
        self._steps_left: int | None = None
        self._lock = threading.Lock()

    def die_at(self, step: int | None) -> None:
        self._steps_left = step

    def step(self) -> None:
        with self._lock:
            if self._steps_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._steps_left is not None:
                self._steps_left -= 1


FATE = Fate()


class MortalSaver(SqliteSaver):
    """Before everything it writes is a step; on a slow machine it waits longer for its turn."""

    def __init__(self, path: Path, **named: Any) -> None:
        super().__init__(path, lock_timeout=timedelta(seconds=LIFE_LIMIT_S), **named)

    def write(self, checkpoint: Checkpoint, *args: Any, **named: Any) -> None:
        FATE.step()
        super().write(checkpoint, *args, **named)

    def hold(self, thread_id: str, rev: int, lease_for: timedelta, *, synced: bool = True) -> None:
        FATE.step()
        super().hold(thread_id, rev, lease_for, synced=synced)

    def forget(self, thread_id: str, *, synced: bool = True) -> None:
        FATE.step()
        super().forget(thread_id, synced=synced)


def make_mortal(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool; before it runs is a step, and before what it answered is kept is another."""

    @functools.wraps(tool)
    def runs(*args: Any, **named: Any) -> Any:
        FATE.step()
        return tool(*args, **named)

    return runs


def run_in_child(work: Callable[[], object]) -> int:
    """The wait status of a forked process that does the work."""
    return run_in_children([work])[0]


def run_in_children(
    works: Sequence[Callable[[], object]], meanwhile: Callable[[], object] = lambda: None
) -> list[int]:
    """The wait statuses of forked processes that do the works, one each; `meanwhile` when all are there."""
    children = [_forked(work) for work in works]
    meanwhile()
    return [os.waitpid(child, 0)[1] for child in children]


def _forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(LIFE_LIMIT_S)
            work()
            status = 0
        finally:
            os._exit(status)
    return child
