"""Render long content in pieces: short parts at once, long parts when the page is sent."""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator

from placet.text.characters import may_contain_hidden

PIECE_SIZE = 16 * 1024  # characters rendered at once
NEAR = 64

Draw = Callable[[], Iterable[str]]


class DeferredMarkup:
    """Parts of markup that are rendered later, and their positions."""

    def __init__(self) -> None:
        # The marker is random, so that a text cannot contain it.
        self._marker = f"\0{secrets.token_hex(16)}:"
        self._waiting: list[Draw] = []

    def defer(self, draw: Draw) -> str:
        """Return the placeholder for a part that is rendered later."""
        self._waiting.append(draw)
        return f"{self._marker}{len(self._waiting) - 1}\0"

    def fill(self, markup: str) -> Iterator[str]:
        """Yield the markup with each placeholder replaced by its part."""
        if not self._waiting:
            yield markup
            return
        for number, part in enumerate(re.split(f"{re.escape(self._marker)}([0-9]+)\0", markup)):
            if number % 2:
                yield from self._waiting[int(part)]()
            else:
                yield part


def split_text(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces that end at a line or word, as hidden characters depend on their neighbours."""
    start = 0
    while len(text) - start > size:
        end = _find_piece_end(text, start, start + size)
        yield text[start:end]
        start = end
    yield text[start:]


def split_lines(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of whole lines, without the line ends between pieces."""
    start = 0
    while len(text) - start > size:
        end = text.rfind("\n", start, start + size)
        end = text.find("\n", start + size) if end < 0 else end
        if end < 0:
            break
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _find_piece_end(text: str, start: int, limit: int) -> int:
    for sign in ("\n", " "):
        found = text.rfind(sign, start, limit)
        if found >= 0:
            return found + 1
    nearest = range(limit, max(limit - NEAR, start), -1)
    places = (end for end in nearest if not may_contain_hidden(text[end - 1 : end + 1]))
    return next(places, limit)
