"""The terminal that a command writes to: how wide it is, and what must not reach it."""

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from placet.channels.texts import MOST_READ, visible

# Characters that a terminal could obey, or that hide text: inside JSON strings they are written as escapes.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
GAP = "  "
LEAST_ROOM = 20


def escaped(text: str) -> str:
    """JSON without what a terminal could obey; it means the same."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def whole(text: str) -> str:
    """All of a text, however long, with what hides or is obeyed made visible."""
    return "".join(visible(text[at : at + MOST_READ]) for at in range(0, len(text), MOST_READ))


def columns_of(out: TextIO) -> int:
    """How wide this very terminal is, wherever standard output goes and whatever COLUMNS once was."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def leave_output() -> None:
    """Nobody takes what is still to be written: it fails no more, not even when the command ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width_of(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + _is_wide(one) for one in text)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under a header, each column as wide as its widest cell."""
    lines = [[name.upper() for name in header], *rows]
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(
            cell + " " * (width - width_of(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def stacked(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """The same for a terminal that is too narrow: each row as a block, each cell in lines of its own.

    A long first cell stays whole, since it is what one copies. The others are broken where the terminal ends:
    were that left to the terminal, what strangers wrote could stand below our own names.
    """
    margin = max(map(len, header)) + len(GAP)
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for place, (name, cell) in enumerate(zip(header, row, strict=True)):
            pieces = _pieces(cell, max(columns - margin, LEAST_ROOM), whole=place == 0)
            lines.append(name.upper().ljust(margin) + pieces[0])
            lines += [" " * margin + piece for piece in pieces[1:]]
    return lines


def _pieces(cell: str, room: int, *, whole: bool) -> list[str]:
    room = room // 2 if width_of(cell) > len(cell) else room
    return textwrap.wrap(cell, room, break_long_words=not whole, break_on_hyphens=False) or [""]


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")
