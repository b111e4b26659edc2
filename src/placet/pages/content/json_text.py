"""Render values that are too large for tables and lists as readable JSON text."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from placet.pages.content.markup_writer import MarkupWriter

BATCH_SIZE = 50


def format_as_json(writing: MarkupWriter, value: Any) -> str:
    """Return JSON as markup: lists with one entry per line, objects with one field per line."""
    if not isinstance(value, list | tuple):
        return writing.write_long_text(_format_text(value))
    if len(value) <= BATCH_SIZE:
        return writing.write_long_text(_format_lines(value))
    return writing.render_later(lambda: writing.write_texts(_format_batches(value)))


def _format_batches(values: Sequence[Any]) -> Iterator[str]:
    for start in range(0, len(values), BATCH_SIZE):
        yield "\n" * (start > 0) + _format_lines(values[start : start + BATCH_SIZE])


def _format_lines(values: Sequence[Any]) -> str:
    try:
        return msgspec.json.Encoder().encode_lines(values).decode().rstrip("\n")
    except (TypeError, ValueError, RecursionError):
        return _dump_any(values)


def _format_text(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError, RecursionError):
        return _dump_any(value)


def _dump_any(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
