"""Waiting for what another thread or process does, never longer than it may take."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0  # a program that takes a second to start takes twenty beside busy neighbours
T = TypeVar("T")


def eventually(look: Callable[[], T | None], *, within: float = PATIENCE_S) -> T:
    """The first thing that `look` finds; fails when it finds nothing in time."""
    last = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < last, f"nothing came of it within {within} seconds"
        time.sleep(0.01)
    return found
