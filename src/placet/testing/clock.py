"""A clock for tests that only moves when it is advanced."""

from datetime import UTC, datetime, timedelta

DAYBREAK = datetime(2026, 1, 1, 6, 0, tzinfo=UTC)


class FakeClock:
    """Returns the current time when called. Only `advance` changes it."""

    def __init__(self, start: datetime = DAYBREAK) -> None:
        self._now = start

    def __call__(self) -> datetime:
        """Return the current time."""
        return self._now

    def advance(self, for_: timedelta) -> datetime:
        """Advance the clock; return the new time."""
        self._now += for_
        return self._now
