"""Find where a match may have begun that goes on after the end of a text."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import re2
from msgspec import Struct

from placet.relay.detectors.pattern_width import build_beginning
from placet.relay.detectors.regex import RejectedPattern, build_re2_options, compile_pattern

MEMORY_BYTES = 64 << 20
MAX_PATTERNS = 2_000
"""Of more patterns, only the width is known."""
CONTEXT = 1
"""How many characters before its beginning decide a match: one, for word boundaries."""


class OpenMatchFinder(Struct, frozen=True):
    """Finds beginnings of matches at the end of a text, for all patterns of a plan."""

    width: int
    """No match has more characters."""
    beginnings: tuple[Any, ...] = ()
    """Patterns that match the beginning of a match at the end of a text."""
    other_width: int = 0
    """The width of what has no such pattern. So many characters at the end always count as a beginning."""

    def find(self, text: str) -> int:
        """Return the first position at which a match may begin that goes on after the text."""
        first = len(text) - self.other_width
        start = max(0, len(text) - self.width - CONTEXT)
        tail = text[start:]
        for beginning in self.beginnings:
            found = beginning.search(tail)
            if found is None:  # the engine gave up, because it always matches the empty text
                return max(0, len(text) - self.width)
            first = min(first, start + found.start())
        return max(0, first, len(text) - self.width)


NOTHING_OPEN = OpenMatchFinder(0)


def combine_finders(first: OpenMatchFinder, second: OpenMatchFinder) -> OpenMatchFinder:
    """Return a finder that finds what either of them finds."""
    return OpenMatchFinder(
        max(first.width, second.width),
        tuple(dict.fromkeys((*first.beginnings, *second.beginnings))),
        max(first.other_width, second.other_width),
    )


def build_finder(patterns: Iterable[tuple[str, int]]) -> OpenMatchFinder:
    """Return the finder for patterns with their widths."""
    patterns = list(patterns)
    if len(patterns) > MAX_PATTERNS:
        widest = max(width for _, width in patterns)
        return OpenMatchFinder(widest, (), widest)
    width = other_width = 0
    beginnings: list[str] = []
    for pattern, pattern_width in patterns:
        width = max(width, pattern_width)
        beginning = _find_beginning(pattern)
        if beginning is None:
            other_width = max(other_width, pattern_width)
        else:
            beginnings.append(beginning)
    compiled = _compile(tuple(dict.fromkeys(beginnings)))
    if compiled is None:
        return OpenMatchFinder(width, (), width)
    return OpenMatchFinder(width, compiled, other_width)


@lru_cache(maxsize=10_000)
def _find_beginning(pattern: str) -> str | None:
    """Return the pattern of a match's beginning if RE2 can search for it, as it does for the match."""
    try:
        if compile_pattern(pattern).fast is None:
            return None
    except RejectedPattern:
        return None
    beginning = build_beginning(pattern)
    return None if beginning is None or _compile_one((beginning,)) is None else beginning


def _compile(beginnings: Sequence[str]) -> tuple[Any, ...] | None:
    """Return as few compiled patterns as possible, or None if they do not compile."""
    if not beginnings:
        return ()
    compiled = _compile_one(beginnings)
    if compiled is not None:
        return (compiled,)
    if len(beginnings) == 1:
        return None
    half = len(beginnings) // 2
    first, second = _compile(beginnings[:half]), _compile(beginnings[half:])
    return None if first is None or second is None else (*first, *second)


def _compile_one(beginnings: Sequence[str]) -> Any:
    either = "|".join(f"(?:{beginning})" for beginning in beginnings)
    try:
        return re2.compile(rf"(?:{either})\z", build_re2_options(MEMORY_BYTES))
    except re2.error:
        return None
