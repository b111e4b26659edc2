"""Values that are too much to lay out, as text: JSON that a person can read."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from placet.pages.content.markup_writer import MarkupWriter

AT_ONCE = 50


def format_as_json(writing: MarkupWriter, value: Any) -> str:
    """Lists one entry per line, objects one field per line, as markup."""
    if not isinstance(value, list | tuple):
        return writing.long(_text(value))
    if len(value) <= AT_ONCE:
        return writing.long(_lines(value))
    return writing.later(lambda: writing.run(_many(value)))


def _many(values: Sequence[Any]) -> Iterator[str]:
    for start in range(0, len(values), AT_ONCE):
        yield "\n" * (start > 0) + _lines(values[start : start + AT_ONCE])


def _lines(values: Sequence[Any]) -> str:
    try:
        return msgspec.json.Encoder().encode_lines(values).decode().rstrip("\n")
    except (TypeError, ValueError, RecursionError):
        return _by_hand(values)


def _text(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError, RecursionError):
        return _by_hand(value)


def _by_hand(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
