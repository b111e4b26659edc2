"""Moments as people say them in their own language, with the exact one at hand."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, Protocol

from babel import Locale
from babel.dates import format_date, format_time, format_timedelta

from placet.text.wording import phrase


class Translator(Protocol):
    """What saying a moment takes of a language."""

    locale: Locale

    def t(self, text: str, /, **parts: Any) -> str: ...


_NEAR = {
    0: phrase("today {clock} UTC"),
    1: phrase("tomorrow {clock} UTC"),
    -1: phrase("yesterday {clock} UTC"),
}
# Where the locale's own form has one comma too many before the time.
_WEEKDAY_AND_DAY = {"en": "EEEE d MMMM y"}


def format_relative(language: Translator, moment: datetime, now: datetime) -> str:
    """How far away a moment is: "in 2 hours", "3 days ago"."""
    seconds = (moment - now).total_seconds()
    minutes = round(abs(seconds) / 60)
    if minutes < 1:
        return language.t("in less than a minute") if seconds > 0 else language.t("just now")
    unit, whole = _whole_units(minutes)
    length = whole if seconds >= 0 else -whole
    # A threshold out of reach makes Babel keep to the unit chosen here.
    return format_timedelta(
        length, granularity=unit, threshold=1e9, add_direction=True, locale=language.locale
    )


def format_calendar(language: Translator, moment: datetime, now: datetime) -> str:
    """Which moment it is: "today 18:00 UTC", "Tuesday 17 November 2026, 18:00 UTC"."""
    here = moment.astimezone(UTC)
    near = _NEAR.get((here.date() - now.astimezone(UTC).date()).days)
    if near:
        return language.t(near, clock=_clock(language, here))
    form = _WEEKDAY_AND_DAY.get(language.locale.language, "full")
    weekday_and_day = format_date(here, form, locale=language.locale)
    return language.t("{day}, {clock} UTC", day=weekday_and_day, clock=_clock(language, here))


def format_day(language: Translator, moment: date) -> str:
    """A day in words: "17 November 2026"."""
    return format_date(moment, "long", locale=language.locale)


def format_exact(language: Translator, moment: datetime) -> str:
    """A moment from elsewhere in words, in UTC where it says how it relates to it."""
    if moment.tzinfo is None:
        return language.t("{day}, {clock}", day=format_day(language, moment), clock=_clock(language, moment))
    here = moment.astimezone(UTC)
    return language.t("{day}, {clock} UTC", day=format_day(language, here), clock=_clock(language, here))


def _clock(language: Translator, moment: datetime) -> str:
    return format_time(moment.time(), "short", locale=language.locale)


def _whole_units(minutes: int) -> tuple[Literal["minute", "hour", "day"], timedelta]:
    if minutes < 90:
        return "minute", timedelta(minutes=minutes)
    if minutes < 36 * 60:
        return "hour", timedelta(hours=round(minutes / 60))
    return "day", timedelta(days=round(minutes / (24 * 60)))
