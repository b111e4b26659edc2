"""A log with a limit of lines per minute, so that many requests cannot fill it; the others are counted."""

import logging
from collections.abc import Callable

from placet.errors import RateLimited
from placet.server.poll_limiter import PollLimiter


class LimitedLog:
    """Writes at most a number of lines per minute, and says how many it left out."""

    def __init__(self, log: logging.Logger, *, per_minute: int, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._limiter = PollLimiter(per_minute=per_minute, monotonic=monotonic)
        self._left_out = 0

    def warning(self, line: str) -> None:
        """Write a line, or count it if there were too many."""
        try:
            self._limiter.spend(None, "")
        except RateLimited:
            self._left_out += 1
            return
        others = f" left_out={self._left_out}" if self._left_out else ""
        self._left_out = 0
        self._log.warning("%s%s", line, others)
