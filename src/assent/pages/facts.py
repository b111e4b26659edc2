"""What an unknown value looks like to a person: never raw JSON, never blank."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

LONG_LINE = 160
MOST_COLUMNS = 6
LONGEST_LINK = 2048

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_WORDLIKE = re.compile(r"[A-Za-z][A-Za-z0-9]*([ _-]+[A-Za-z0-9]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def look(value: Any) -> str:
    """The name of the macro that shows this value."""
    if isinstance(value, str):
        return _look_of_text(value)
    if isinstance(value, bool):
        return "yes_no"
    if value is None or value in ([], {}, ()):
        return "nothing"
    if isinstance(value, Mapping):
        return "facts"
    return _look_of_list(value) if isinstance(value, list | tuple) else "text"


def columns(rows: list[Mapping[str, Any]]) -> list[str]:
    """The columns of a table, in the order in which its rows bring them up."""
    return list(dict.fromkeys(name for row in rows for name in row))


def label(name: object) -> str:
    """A key as a person would write it: `price_per_day` is "Price per day"; other text stays as it is."""
    text = str(name)
    if not _WORDLIKE.fullmatch(text):
        return text
    words = _CAMEL.sub(" ", text).replace("_", " ").replace("-", " ").split()
    spoken = " ".join(word if word.isupper() else word.lower() for word in words)
    return spoken[0].upper() + spoken[1:]


def is_link(text: str) -> bool:
    """Whether this may be a link: https, plain ASCII, no login in front of the host."""
    if not text.startswith("https://") or len(text) > LONGEST_LINK:
        return False
    if not text.isascii() or not text.isprintable() or any(sign in text for sign in " \"'<>\\^`{|}"):
        return False
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and "@" not in parts.netloc


def as_day(text: str) -> date | None:
    """The day that an ISO date names."""
    return _parsed(date, text) if _DAY.fullmatch(text) else None


def as_moment(text: str) -> datetime | None:
    """The moment that an ISO timestamp names."""
    moment = _parsed(datetime, text) if _MOMENT.fullmatch(text) else None
    # A year at the edge of the calendar could not be moved to UTC.
    return moment if moment and 1 < moment.year < 9999 else None


def _parsed(kind: Any, text: str) -> Any:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def _look_of_text(text: str) -> str:
    if not text or text.isspace():
        return "nothing"
    if is_link(text):
        return "link"
    if len(text) > LONG_LINE or "\n" in text:
        return "lines"
    if not "0" <= text[0] <= "9":
        return "text"
    if as_day(text):
        return "day"
    return "moment" if as_moment(text) else "text"


def _look_of_list(values: list[Any] | tuple[Any, ...]) -> str:
    if all(_is_small(value) for value in values):
        return "items"
    if len(values) > 1 and all(isinstance(value, Mapping) and value for value in values):
        tabular = len(columns(list(values))) <= MOST_COLUMNS
        return (
            "table"
            if tabular and all(_is_small(cell) for row in values for cell in row.values())
            else "entries"
        )
    return "entries"


def _is_small(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple) and "\n" not in str(value)
