"""Split long texts into overlapping windows, and merge the matches."""

import re
from collections.abc import Iterable, Iterator

from placet.ports.detector import Match

_LONE = re.compile("[\ud800-\udfff]")


def split_windows(text: str, *, size: int, overlap: int) -> Iterator[tuple[int, str]]:
    """The text in parts with their offsets; what is shorter than the overlap is whole in one of them."""
    start = 0
    while True:
        yield start, text[start : start + size]
        if start + size >= len(text):
            return
        start += size - overlap


def replace_surrogates(text: str) -> str:
    """The text without lone surrogates, which no other program takes; every offset stays true."""
    return _LONE.sub("\ufffd", text)


def deduplicate_matches(matches: Iterable[Match]) -> tuple[Match, ...]:
    """Each place of a rule once, with its best score: overlapping windows find some twice."""
    best: dict[tuple[int, int, int, int], Match] = {}
    for match in matches:
        place = (match.rule, match.piece, match.start, match.end)
        if place not in best or best[place].score < match.score:
            best[place] = match
    return tuple(best.values())
