"""The language of a page: its texts, and how it writes dates, times and numbers."""

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.lists import format_list
from babel.numbers import format_decimal
from markupsafe import Markup, escape

from placet.pages import times
from placet.pages.catalog import Catalog
from placet.text.characters import mark_hidden
from placet.text.wording import Message

# English pages use 24-hour times and day before month, as most readers worldwide do.
_LOCALES = {"en": "en_GB"}
_LEFT_TO_RIGHT_MARK = "\u200e"


class Language:
    """Translates and formats for one language; texts that the catalog lacks stay English."""

    def __init__(self, code: str = "en", catalog: Catalog | None = None, *, name: str | None = None) -> None:
        """`code` is a language tag such as `de` or `pt-BR`; raises ValueError for an unknown one."""
        self.code = code
        self.locale = get_locale(code)
        self.name = name or _read_own_name(self.locale)
        self.direction = self.locale.text_direction
        self.grouping = str(self.locale.number_symbols.get("latn", {}).get("group", ","))
        self._catalog = catalog or Catalog(self.locale)

    def t(self, text: str, /, **parts: Any) -> str:
        """Return the translated text with its placeholders filled in and escaped, unless they are markup."""
        return self._fill(self._catalog.text(text) or text, parts)

    def tn(self, one: str, many: str, count: int, **parts: Any) -> str:
        """Return the translated text for this count; every form may contain `{count}`."""
        return self._fill(self._choose_plural(one, many, count), {"count": count, **parts})

    def say(self, message: str) -> str:
        """Return a message in this language, with hidden characters of its values marked."""
        if not isinstance(message, Message):
            return mark_hidden(message)
        shown = {name: self._format_part(part) for name, part in message.parts.items()}
        if message.plural is None:
            return self._fill(self._catalog.text(message.template) or message.template, shown)
        return self._fill(
            self._choose_plural(message.template, message.plural, message.parts["count"]), shown
        )

    def relative(self, moment: datetime, now: datetime) -> str:
        """Return how far away a moment is: "in 2 hours"."""
        return times.format_relative(self, moment, now)

    def calendar(self, moment: datetime, now: datetime) -> str:
        """Return a moment as a calendar date and time: "today 18:00 UTC"."""
        return times.format_calendar(self, moment, now)

    def exact(self, moment: datetime) -> str:
        """Return the exact date and time."""
        return times.format_exact(self, moment)

    def day(self, moment: date) -> str:
        """Return a date: "17 November 2026"."""
        return times.format_day(self, moment)

    def number(self, value: float) -> str:
        """Return a number as this language writes it, with all of its digits."""
        if isinstance(value, bool) or not abs(value) < 1e15 or 0 < abs(value) < 1e-9:
            return str(value)
        # Four digits may be a year or an identifier, so they get no separator.
        grouped = abs(value) >= 10_000
        written = format_decimal(
            Decimal(str(value)), locale=self.locale, decimal_quantization=False, group_separator=grouped
        )
        # Without the mark, a right-to-left line would show the sign after the number.
        return _LEFT_TO_RIGHT_MARK + written if value < 0 and self.direction == "rtl" else written

    def listing(self, values: Iterable[object]) -> str:
        """Return several values as a list in a sentence: "a, b and c"."""
        return format_list([str(value) for value in values], locale=self.locale)

    def _choose_plural(self, one: str, many: str, count: int) -> str:
        return self._catalog.find_plural(one, count) or (one if count == 1 else many)

    def _fill(self, text: str, parts: dict[str, Any]) -> str:
        if not parts:
            return text
        written = {name: self.number(part) if _is_number(part) else part for name, part in parts.items()}
        return escape(text).format(**written)

    def _format_part(self, part: object) -> object:
        """Return a message value for display: dates formatted, texts marked and isolated in direction."""
        if isinstance(part, date):
            return self.day(part)
        return part if _is_number(part) else Markup("<bdi>{}</bdi>").format(mark_hidden(part))


def get_locale(code: str) -> Locale:
    """Return the locale of a language; raise ValueError if it is unknown."""
    try:
        return Locale.parse(_LOCALES.get(code, code.replace("-", "_")))
    except UnknownLocaleError as error:
        raise ValueError(str(error)) from error


def _read_own_name(locale: Locale) -> str:
    name = locale.get_display_name(locale) or str(locale)
    return name[0].upper() + name[1:]


def _is_number(part: object) -> bool:
    return isinstance(part, int | float) and not isinstance(part, bool)


ENGLISH = Language(name="English")
