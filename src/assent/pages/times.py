"""Moments as people say them, with the exact one at hand."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class Tongue(Protocol):
    """What saying a moment takes of a language."""

    def t(self, text: str, /, **parts: Any) -> str: ...
    def tn(self, one: str, many: str, count: int) -> str: ...


_NEAR = {0: "today {clock} UTC", 1: "tomorrow {clock} UTC", -1: "yesterday {clock} UTC"}


def relative(language: Tongue, moment: datetime, now: datetime) -> str:
    """How far away a moment is: "in 2 hours", "3 days ago"."""
    seconds = (moment - now).total_seconds()
    length = _length(language, timedelta(seconds=abs(seconds)))
    return (
        language.t("in {length}", length=length)
        if seconds >= 0
        else language.t("{length} ago", length=length)
    )


def calendar(language: Tongue, moment: datetime, now: datetime) -> str:
    """Which moment it is: "today 18:00 UTC", "Tuesday 17 November 2026, 18:00 UTC"."""
    here = moment.astimezone(UTC)
    clock = f"{here:%H:%M}"
    near = _NEAR.get((here.date() - now.astimezone(UTC).date()).days)
    if near:
        return language.t(near, clock=clock)
    return language.t(
        "{weekday} {day}, {clock} UTC",
        weekday=language.t(_DAYS[here.weekday()]),
        day=day(language, here),
        clock=clock,
    )


def day(language: Tongue, moment: date) -> str:
    """A day in words: "17 November 2026"."""
    return language.t(
        "{day} {month} {year}", day=moment.day, month=language.t(_MONTHS[moment.month - 1]), year=moment.year
    )


def exact(language: Tongue, moment: datetime) -> str:
    """A moment from elsewhere in words, in UTC where it says how it relates to it."""
    here = moment.astimezone(UTC) if moment.tzinfo else moment
    zone = " UTC" if moment.tzinfo else ""
    return language.t("{day}, {clock}{zone}", day=day(language, here), clock=f"{here:%H:%M}", zone=zone)


def _length(language: Tongue, length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    if minutes < 1:
        return language.t("less than a minute")
    if minutes < 90:
        return language.tn("{count} minute", "{count} minutes", minutes)
    if minutes < 36 * 60:
        return language.tn("{count} hour", "{count} hours", round(minutes / 60))
    return language.tn("{count} day", "{count} days", round(minutes / (24 * 60)))
