"""Format tables for the terminal, and measure its width."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from placet.text.width import display_width

GAP = "  "
MIN_CELL_WIDTH = 20


def get_terminal_width(out: TextIO) -> int:
    """Return the width of the terminal behind this stream, or of COLUMNS if it is not a terminal."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def discard_output() -> None:
    """Redirect standard output to the null device, so that nothing fails after a broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def format_aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows below a header, each column as wide as its widest cell."""
    lines = [[name.upper() for name in header], *rows]
    widths = [max(map(display_width, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(
            cell + " " * (width - display_width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def format_stacked(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Return each row as a block with one line per cell, for a narrow terminal.

    The first cell is not broken, so that it can be copied. The others are wrapped here and not by the
    terminal, so that untrusted text cannot appear below the column names.
    """
    margin = max(map(len, header)) + len(GAP)
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for place, (name, cell) in enumerate(zip(header, row, strict=True)):
            pieces = _wrap_cell(cell, max(columns - margin, MIN_CELL_WIDTH), whole=place == 0)
            lines.append(name.upper().ljust(margin) + pieces[0])
            lines += [" " * margin + piece for piece in pieces[1:]]
    return lines


def _wrap_cell(cell: str, room: int, *, whole: bool) -> list[str]:
    room = room // 2 if display_width(cell) > len(cell) else room
    return textwrap.wrap(cell, room, break_long_words=not whole, break_on_hyphens=False) or [""]
