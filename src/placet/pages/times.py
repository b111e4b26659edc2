"""Format dates and times in the reader's language."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, Protocol

from babel import Locale
from babel.dates import format_date, format_time, format_timedelta

from placet.text.wording import phrase


class Translator(Protocol):
    """What formatting a time needs from a language."""

    locale: Locale

    def t(self, text: str, /, **parts: Any) -> str: ...


_NEAR = {
    0: phrase("today {clock} UTC"),
    1: phrase("tomorrow {clock} UTC"),
    -1: phrase("yesterday {clock} UTC"),
}
# The English locale's own format has a comma too many before the time.
_WEEKDAY_AND_DAY = {"en": "EEEE d MMMM y"}


def format_relative(language: Translator, moment: datetime, now: datetime) -> str:
    """Return how far away a moment is: "in 2 hours", "3 days ago"."""
    seconds = (moment - now).total_seconds()
    minutes = round(abs(seconds) / 60)
    if minutes < 1:
        return language.t("in less than a minute") if seconds > 0 else language.t("just now")
    unit, whole = _count_whole_units(minutes)
    length = whole if seconds >= 0 else -whole
    # A high threshold makes Babel use the unit chosen here.
    return format_timedelta(
        length, granularity=unit, threshold=1e9, add_direction=True, locale=language.locale
    )


def format_calendar(language: Translator, moment: datetime, now: datetime) -> str:
    """Return a date and time: "today 18:00 UTC", "Tuesday 17 November 2026, 18:00 UTC"."""
    here = moment.astimezone(UTC)
    near = _NEAR.get((here.date() - now.astimezone(UTC).date()).days)
    if near:
        return language.t(near, clock=_format_clock(language, here))
    form = _WEEKDAY_AND_DAY.get(language.locale.language, "full")
    weekday_and_day = format_date(here, form, locale=language.locale)
    return language.t("{day}, {clock} UTC", day=weekday_and_day, clock=_format_clock(language, here))


def format_day(language: Translator, moment: date) -> str:
    """Return a date: "17 November 2026"."""
    return format_date(moment, "long", locale=language.locale)


def format_exact(language: Translator, moment: datetime) -> str:
    """Return a date and time; in UTC if the moment has a time zone."""
    if moment.tzinfo is None:
        return language.t(
            "{day}, {clock}", day=format_day(language, moment), clock=_format_clock(language, moment)
        )
    here = moment.astimezone(UTC)
    return language.t(
        "{day}, {clock} UTC", day=format_day(language, here), clock=_format_clock(language, here)
    )


def _format_clock(language: Translator, moment: datetime) -> str:
    return format_time(moment.time(), "short", locale=language.locale)


def _count_whole_units(minutes: int) -> tuple[Literal["minute", "hour", "day"], timedelta]:
    if minutes < 90:
        return "minute", timedelta(minutes=minutes)
    if minutes < 36 * 60:
        return "hour", timedelta(hours=round(minutes / 60))
    return "day", timedelta(days=round(minutes / (24 * 60)))
