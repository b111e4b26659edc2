"""What a page's form sends: pairs of strings, with the line ends that browsers make of every newline."""

import re
from collections.abc import Iterable, Sequence

from placet.text.characters import normalize_newlines

Pairs = Sequence[tuple[str, str]]

_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def last_value(pairs: Pairs, name: str) -> str | None:
    """The last value sent under `name`."""
    return next((normalize_newlines(value) for key, value in reversed(pairs) if key == name), None)


def all_values(pairs: Pairs, name: str) -> list[str]:
    """All values sent under `name`, in order, kept as they are."""
    return [value for key, value in pairs if key == name]


def find_picked(pairs: Pairs, name: str, offered: Iterable[str]) -> list[str]:
    """The ids sent under `name`, each as it was offered: a browser changes the line ends of an id."""
    ids = {normalize_newlines(identity): identity for identity in offered}
    return [ids.get(normalize_newlines(value), value) for value in all_values(pairs, name)]


def values_under(pairs: Pairs, prefix: str) -> dict[str, str]:
    """The values of all names that start with `prefix`, without it; the last of each counts."""
    return {
        key.removeprefix(prefix): normalize_newlines(value) for key, value in pairs if key.startswith(prefix)
    }


def is_editable_text(text: str) -> bool:
    """Whether a person can edit this in a page and leave the rest untouched: nothing in it is invisible."""
    return all(character.isprintable() or character in "\n\r\t\u00a0" for character in text)


def read_grouping(pairs: Pairs) -> str | None:
    """What the page that sent this writes between thousands, where that is a point."""
    return last_value(pairs, "grouping")


def may_be_thousands(text: str, grouping: str | None) -> bool:
    """Whether a person may mean thousands where a decimal point would be read: 12.500 on such a page."""
    return grouping == "." and _THOUSANDS.fullmatch(text.strip()) is not None


def is_form_name(text: str) -> bool:
    """Whether this comes back from a form as it was: a line end would not, and might name something else."""
    return text.isprintable()


def format_value(value: object) -> str:
    """A scalar as the page's form holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return normalize_newlines(str(value))
