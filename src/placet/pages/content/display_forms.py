"""Choose how a value is displayed (fact, table, date …) by its shape, in bounded time."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any

from placet.pages.content.links import is_link

LONG_LINE = 160
MAX_KEY_LENGTH = 80
MAX_COLUMNS = 6
# Only the first rows decide whether a list is a table.
EXAMINED_ROWS = 200

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_WORDLIKE = re.compile(r"[A-Za-z][A-Za-z0-9]*([ _-]+[A-Za-z0-9]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Numbers under these names are identifiers, not quantities.
_NO_AMOUNT = re.compile(
    r"(^|[ _-])(ids?|no|nr|number|numbers|code|codes|year|years|zip|postcode|plz|phone|tel|fax|mobile|port"
    r"|ports|pid|version|build|revision|key|ref|reference|serial|isbn|iban|account|case|ticket|invoice|issue"
    r"|pr|order|pin|hash|timestamp|epoch|lat|lng|lon|latitude|longitude)($|[ _-])"
)


def choose_form(value: Any) -> str:
    """Return the name of the display form of a value."""
    if isinstance(value, str):
        return choose_text_form(value)
    if isinstance(value, bool):
        return "yes_no"
    if value is None or value in ([], {}, ()):
        return "nothing"
    if isinstance(value, Mapping):
        return "facts"
    return choose_list_form(value) if isinstance(value, list | tuple) else "text"


def list_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of a table in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_label(name: object) -> str:
    """Return a key as a label: `price_per_day` becomes "Price per day"; other text is unchanged."""
    text = str(name)
    if len(text) > MAX_KEY_LENGTH or not _WORDLIKE.fullmatch(text):
        return text
    words = _CAMEL.sub(" ", text).replace("_", " ").replace("-", " ").split()
    spoken = " ".join(word if word.isupper() else word.lower() for word in words)
    return spoken[0].upper() + spoken[1:]


def is_amount(name: str) -> bool:
    """Whether numbers under this name may be written with thousands separators."""
    return not _NO_AMOUNT.search(_CAMEL.sub(" ", name[:MAX_KEY_LENGTH]).lower())


def parse_day(text: str) -> date | None:
    """Return the date of an ISO 8601 text, or None."""
    return _parse(date, text) if _DAY.fullmatch(text) else None


def parse_moment(text: str) -> datetime | None:
    """Return the date and time of an ISO 8601 text, or None."""
    moment = _parse(datetime, text) if _MOMENT.fullmatch(text) else None
    # The first and last year of the calendar cannot be converted to UTC.
    return moment if moment and 1 < moment.year < 9999 else None


def _parse(kind: Any, text: str) -> Any:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def choose_text_form(text: str) -> str:
    """Return the display form of a text: nothing, link, lines, day, moment or text."""
    if not text or text.isspace():
        return "nothing"
    if is_link(text):
        return "link"
    if len(text) > LONG_LINE or "\n" in text:
        return "lines"
    if not "0" <= text[0] <= "9":
        return "text"
    if parse_day(text):
        return "day"
    return "moment" if parse_moment(text) else "text"


def choose_list_form(values: Sequence[Any]) -> str:
    """Return the display form of a list that is not empty: items, table or entries."""
    examined = list(islice(values, EXAMINED_ROWS))
    if all(is_small(value) for value in examined):
        return "items"
    if len(examined) > 1 and all(isinstance(value, Mapping) and value for value in examined):
        return "table" if _is_tabular(examined) else "entries"
    return "entries"


def is_small(value: Any) -> bool:
    """Whether a value fits into one line of a list or one cell of a table."""
    if isinstance(value, str):
        return len(value) <= LONG_LINE and "\n" not in value
    return not isinstance(value, Mapping | list | tuple)


def _is_tabular(rows: list[Mapping[str, Any]]) -> bool:
    return len(list_columns(rows)) <= MAX_COLUMNS and all(
        is_small(cell) for row in rows for cell in row.values()
    )
