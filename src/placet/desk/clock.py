"""The only module that reads the system clock."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time in UTC, as an aware datetime."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Return seconds of a clock that never goes backwards, for measuring durations."""
    return time.monotonic()
