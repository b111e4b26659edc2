"""Every text inside a nested value, such as an A2A data part, with its path; and the value with other texts.

No recursion: a value may be nested as deeply as a stranger likes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from assent.ports.detector import Scannable

LONGEST_PATH = 500
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}\Z")
_CUT = "…"


def strings_of(value: Any, path: str) -> list[Scannable]:
    """The texts, numbers and names of members in a JSON value, in a fixed order.

    Numbers count as texts, because a card number may travel as one. Paths that would grow too long are cut.
    """
    return [Scannable(where, text) for where, text in _walk(value, path)]


def with_strings(value: Any, texts: Sequence[str]) -> Any:
    """The value with these texts, which are as many as `strings_of` found; a changed number becomes text.

    Names that would become the same one are numbered, so that no value is lost.
    """
    root: list[Any] = [value]
    given = iter(texts)
    todo: list[tuple[Any, Any]] = [(root, 0)]
    while todo:
        holder, key = todo.pop()
        found = holder[key]
        if isinstance(found, dict):
            renamed: dict[str, Any] = {}
            for inner in found.values():
                renamed[_free(next(given), renamed)] = inner
            holder[key] = renamed
            todo += [(renamed, name) for name in reversed(renamed)]
        elif isinstance(found, list):
            copied = list(found)
            holder[key] = copied
            todo += [(copied, place) for place in reversed(range(len(copied)))]
        elif _is_text(found):
            text = next(given)
            holder[key] = text if isinstance(found, str) or text != _written(found) else found
    return root[0]


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    todo: list[tuple[str, Any]] = [(path, value)]
    while todo:
        where, found = todo.pop()
        if isinstance(found, dict):
            inner = [(_member(where, str(name)), name, child) for name, child in found.items()]
            yield from ((f"{place} (name)", str(name)) for place, name, _ in inner)
            todo += [(place, child) for place, _, child in reversed(inner)]
        elif isinstance(found, list):
            todo += [(_item(where, place), found[place]) for place in reversed(range(len(found)))]
        elif _is_text(found):
            yield where, _written(found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _free(name: str, taken: dict[str, Any]) -> str:
    if name not in taken:
        return name
    return next(free for number in count(2) if (free := f"{name} ({number})") not in taken)


def _written(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return hex(int(value))


def _member(path: str, name: str) -> str:
    return _longer(path, f".{name}" if _PLAIN.match(name) else f"[{json.dumps(name[:60])}]")


def _item(path: str, place: int) -> str:
    return _longer(path, f"[{place}]")


def _longer(path: str, step: str) -> str:
    """Deep values have no longer paths than others, or their paths would outgrow the message."""
    if path.endswith(_CUT):
        return path
    return path + step if len(path) + len(step) <= LONGEST_PATH else path + _CUT
