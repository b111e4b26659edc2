"""What several commands print: JSON documents and tables."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from placet.cli.text_tables import format_aligned, format_stacked, get_terminal_width
from placet.text.characters import escape_hidden_in_json
from placet.text.truncation import to_single_line
from placet.text.width import display_width


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(escape_hidden_in_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows under a header, one field per line in a narrow terminal, or `empty` without rows."""
    if not rows:
        click.echo(empty, err=True)
        return
    texts = [[_format_cell(value) for value in row] for row in rows]
    lines = format_aligned(header, texts)
    columns = get_terminal_width(sys.stdout) if sys.stdout.isatty() else None
    if columns is not None and max(map(display_width, lines)) > columns:
        lines = format_stacked(header, texts, columns)
    for line in lines:
        click.echo(line)


def _format_cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M")
    return to_single_line(str(value))
