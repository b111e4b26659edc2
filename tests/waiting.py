"""Wait for what another thread or process does, with a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0  # a program that starts within a second takes twenty on a busy machine
T = TypeVar("T")


def eventually(find: Callable[[], T | None], *, within: float = PATIENCE_S) -> T:
    """Call `find` until it returns something true, and return that; fail after this many seconds."""
    deadline = time.monotonic() + within
    while not (found := find()):
        assert time.monotonic() < deadline, f"the condition did not hold within {within} seconds"
        time.sleep(0.01)
    return found
