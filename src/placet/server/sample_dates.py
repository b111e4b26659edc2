"""Dates of the sample cases: the examples have fixed dates, and the demo shows them relative to now."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

WRITTEN_ON = date(2026, 5, 6)
"""The day on which the examples take place."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")


def shift_dates(value: Any, now: datetime) -> Any:
    """Return a copy in which every text that is a date or a time is as far from now as from WRITTEN_ON."""
    if isinstance(value, dict):
        return {key: shift_dates(part, now) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [shift_dates(part, now) for part in value]
    return _shift(value, now) if isinstance(value, str) else value


def _shift(text: str, now: datetime) -> str:
    today = now.astimezone(UTC).date()
    try:
        if _DAY.fullmatch(text):
            return (today + (date.fromisoformat(text) - WRITTEN_ON)).isoformat()
        if _MOMENT.fullmatch(text):
            moment = datetime.fromisoformat(text) + (today - WRITTEN_ON)
            # The samples report what has happened, which cannot be later than now.
            is_past = datetime.fromisoformat(text) <= datetime.combine(WRITTEN_ON, time.max, UTC)
            shown = moment - timedelta(days=1) if is_past and moment > now else moment
            return shown.isoformat().replace("+00:00", "Z")
    except ValueError:  # not a day of the calendar
        return text
    return text
