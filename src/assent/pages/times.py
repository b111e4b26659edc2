"""Moments as people say them, with the exact one at hand."""

from datetime import UTC, date, datetime, timedelta

from assent.pages.words import t, tn

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NEAR = {0: "today {clock} UTC", 1: "tomorrow {clock} UTC", -1: "yesterday {clock} UTC"}


def relative(moment: datetime, now: datetime) -> str:
    """How far away a moment is: "in 2 hours", "3 days ago"."""
    seconds = (moment - now).total_seconds()
    length = _length(timedelta(seconds=abs(seconds)))
    return t("in {length}", length=length) if seconds >= 0 else t("{length} ago", length=length)


def calendar(moment: datetime, now: datetime) -> str:
    """Which moment it is: "today 18:00 UTC", "Tuesday 17 November 2026, 18:00 UTC"."""
    here = moment.astimezone(UTC)
    clock = f"{here:%H:%M}"
    near = _NEAR.get((here.date() - now.astimezone(UTC).date()).days)
    if near:
        return t(near, clock=clock)
    return t("{weekday} {day}, {clock} UTC", weekday=t(_DAYS[here.weekday()]), day=day(here), clock=clock)


def day(moment: date) -> str:
    """A day in words: "17 November 2026"."""
    return t("{day} {month} {year}", day=moment.day, month=t(_MONTHS[moment.month - 1]), year=moment.year)


def exact(moment: datetime) -> str:
    """A moment from elsewhere in words, in UTC where it says how it relates to it."""
    here = moment.astimezone(UTC) if moment.tzinfo else moment
    zone = " UTC" if moment.tzinfo else ""
    return t("{day}, {clock}{zone}", day=day(here), clock=f"{here:%H:%M}", zone=zone)


def _length(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    if minutes < 1:
        return t("less than a minute")
    if minutes < 90:
        return tn("{count} minute", "{count} minutes", minutes)
    if minutes < 36 * 60:
        return tn("{count} hour", "{count} hours", round(minutes / 60))
    return tn("{count} day", "{count} days", round(minutes / (24 * 60)))
