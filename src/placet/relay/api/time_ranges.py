"""Moments that a query names, as far as a store can keep them."""

from datetime import datetime

from placet.errors import ValidationFailed

FIRST_YEAR, LAST_YEAR = 1971, 9000


def check_years(**moments: datetime | None) -> None:
    """Raise ValidationFailed for a moment, by its name in the query, of a year that no store keeps."""
    for name, moment in moments.items():
        if moment is not None and not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise ValidationFailed(f"{name}: must be between the years {FIRST_YEAR} and {LAST_YEAR}.")


def check_period(start: datetime | None, end: datetime | None) -> None:
    """Raise ValidationFailed for a query's `startTime` and `endTime` between which nothing can be."""
    check_years(startTime=start, endTime=end)
    if start and end and start >= end:
        raise ValidationFailed("startTime: must be before endTime.")
