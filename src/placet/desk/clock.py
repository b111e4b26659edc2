"""The only reader of time."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The present, aware and in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never run backwards, for measuring."""
    return time.monotonic()
