"""A clock that stands still until it is moved."""

from datetime import UTC, datetime, timedelta

DAYBREAK = datetime(2026, 1, 1, 6, 0, tzinfo=UTC)


class FakeClock:
    """Call it for the present; `advance` is the only way time passes."""

    def __init__(self, start: datetime = DAYBREAK) -> None:
        self._now = start

    def __call__(self) -> datetime:
        """The present, as far as anyone asking is concerned."""
        return self._now

    def advance(self, for_: timedelta) -> datetime:
        """Let time pass; returns the new present."""
        self._now += for_
        return self._now
