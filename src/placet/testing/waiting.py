"""Waiting for a condition that another thread or process brings about."""

from collections.abc import Callable
from threading import Event

POLL_INTERVAL_S = 0.005
WAIT_LIMIT_S = 60.0


def wait_until(holds: Callable[[], bool], limit_s: float = WAIT_LIMIT_S) -> None:
    """Wait until the condition is true; raise TimeoutError after `limit_s` seconds."""
    never = Event()
    for _ in range(max(1, int(limit_s / POLL_INTERVAL_S))):
        if holds():
            return
        never.wait(POLL_INTERVAL_S)
    raise TimeoutError
