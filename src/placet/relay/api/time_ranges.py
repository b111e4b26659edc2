"""Check the timestamps and time ranges in queries."""

from datetime import datetime

from placet.errors import ValidationFailed

FIRST_YEAR, LAST_YEAR = 1971, 9000


def check_years(**timestamps: datetime | None) -> None:
    """Raise ValidationFailed for a timestamp in a year that the store cannot represent.

    The keywords are the names of the timestamps in the query.
    """
    for name, timestamp in timestamps.items():
        if timestamp is not None and not FIRST_YEAR <= timestamp.year <= LAST_YEAR:
            raise ValidationFailed(f"{name}: must be between the years {FIRST_YEAR} and {LAST_YEAR}.")


def check_period(start: datetime | None, end: datetime | None) -> None:
    """Raise ValidationFailed if a query's `startTime` is not before its `endTime`."""
    check_years(startTime=start, endTime=end)
    if start and end and start >= end:
        raise ValidationFailed("startTime: must be before endTime.")
