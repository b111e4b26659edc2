"""Split long texts into overlapping windows, and merge the matches."""

from collections.abc import Iterable, Iterator

from placet.ports.detector import Match


def split_windows(text: str, *, size: int, overlap: int) -> Iterator[tuple[int, str]]:
    """Yield overlapping parts of the text with their offsets.

    Each match that is shorter than the overlap is complete in one of the parts.
    """
    start = 0
    while True:
        yield start, text[start : start + size]
        if start + size >= len(text):
            return
        start += size - overlap


def deduplicate_matches(matches: Iterable[Match]) -> tuple[Match, ...]:
    """Return each match once, with its best score. Overlapping windows report some matches twice."""
    best: dict[tuple[int, int, int, int], Match] = {}
    for match in matches:
        key = (match.rule, match.piece, match.start, match.end)
        if key not in best or best[key].score < match.score:
            best[key] = match
    return tuple(best.values())
