"""Truncate text and bring it to one line without splitting characters."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable

from placet.text.characters import CLOSE, OPEN, mark_hidden

MeasureText = Callable[[str], int]

MAX_READ_LENGTH = 20_000
"""How many characters of a text are read; no messenger and no list shows more."""
ELLIPSIS = "…"

# Characters that depend on the one before them: a cut in between changes what is left.
_DEPENDENT = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
_MAX_BACKTRACK = 32
_MAX_MARK_LENGTH = 12


def count_utf16_units(text: str) -> int:
    """Return the length as platforms written in Java, JavaScript, or C# count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def count_utf8_bytes(text: str) -> int:
    """Return the length in bytes; a lone surrogate counts as what replaces it."""
    return len(text.encode("utf-8", "replace"))


def truncate(text: str, limit: int, *, size: MeasureText = len) -> str:
    """Return the text, or its beginning and an ellipsis, at most `limit` long as `size` measures it.

    A platform whose markup is escaped gives the size of the escaped text. An emoji stays with its modifiers,
    a letter with its accents, and the mark for a hidden character stays whole.
    """
    if len(text) <= limit and size(text) <= limit:
        return text
    start = text[: limit + 1]
    end = bisect_right(range(1, len(start) + 1), limit, key=lambda end: size(start[:end] + ELLIPSIS))
    whole = start[: _cut_between_characters(start, end)].rstrip()
    return f"{whole}{ELLIPSIS}" if size(f"{whole}{ELLIPSIS}") <= limit else ""


def to_single_line(text: str) -> str:
    """Return the text as one visible line: any line break or run of spaces is one space."""
    return mark_hidden(" ".join(text[:MAX_READ_LENGTH].split()), numbered=MAX_READ_LENGTH)


def to_paragraphs(text: str) -> str:
    """Return the text with hidden characters marked and never more than one empty line in a row."""
    lines = [
        line.rstrip()
        for line in mark_hidden(text[:MAX_READ_LENGTH], numbered=MAX_READ_LENGTH).strip().split("\n")
    ]
    return "\n".join(line for line, next in zip(lines, [*lines[1:], "."], strict=True) if line or next)


def _cut_between_characters(text: str, end: int) -> int:
    """Return where to cut at or before `end` without splitting a character or a mark."""
    for here in range(end, end - min(end, _MAX_BACKTRACK), -1):
        if not (_is_dependent(text[here : here + 1]) or text[here - 1] == "\u200d"):
            end = here
            break
    opened = text.rfind(OPEN, max(0, end - _MAX_MARK_LENGTH), end)
    return opened if opened >= 0 and CLOSE not in text[opened:end] else end


def _is_dependent(character: str) -> bool:
    return bool(character) and (bool(unicodedata.combining(character)) or bool(_DEPENDENT.match(character)))
