"""The name-value pairs that a page's form sends. Browsers change every newline to CRLF."""

import re
from collections.abc import Iterable, Sequence

from placet.text.characters import normalize_newlines

Pairs = Sequence[tuple[str, str]]

_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def get_last_value(pairs: Pairs, name: str) -> str | None:
    """Return the last value sent under `name`, or None."""
    return next((normalize_newlines(value) for key, value in reversed(pairs) if key == name), None)


def get_all_values(pairs: Pairs, name: str) -> list[str]:
    """Return all values sent under `name`, in order and unchanged."""
    return [value for key, value in pairs if key == name]


def find_picked(pairs: Pairs, name: str, offered: Iterable[str]) -> list[str]:
    """Return the ids sent under `name`, spelled as offered: browsers change the line ends of an id."""
    ids = {normalize_newlines(identity): identity for identity in offered}
    return [ids.get(normalize_newlines(value), value) for value in get_all_values(pairs, name)]


def get_values_under(pairs: Pairs, prefix: str) -> dict[str, str]:
    """Return the values of all names that start with `prefix`, by name without it; the last one counts."""
    return {
        key.removeprefix(prefix): normalize_newlines(value) for key, value in pairs if key.startswith(prefix)
    }


def is_editable_text(text: str) -> bool:
    """Whether a text box can hold this text without changing it: it has no invisible characters."""
    return all(character.isprintable() or character in "\n\r\t\u00a0" for character in text)


def read_grouping(pairs: Pairs) -> str | None:
    """Return the thousands separator of the page that sent this, if it is a point."""
    return get_last_value(pairs, "grouping")


def may_be_thousands(text: str, grouping: str | None) -> bool:
    """Whether a point may separate thousands, as in 12.500, although it would be read as a decimal point."""
    return grouping == "." and _THOUSANDS.fullmatch(text.strip()) is not None


def is_form_name(text: str) -> bool:
    """Whether a form returns this name unchanged. A name with a line end would come back as another one."""
    return text.isprintable()


def format_value(value: object) -> str:
    """Return a scalar as the text that a form field holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return normalize_newlines(str(value))
