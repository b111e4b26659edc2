"""Long content in pieces: its markup is laid out at once, and what is long in it is drawn as it is sent."""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator

from placet.text.characters import may_contain_hidden

PIECE_SIZE = 16 * 1024  # characters drawn at a stretch
NEAR = 64

Draw = Callable[[], Iterable[str]]


class DeferredMarkup:
    """What is drawn later, and where it belongs in markup that is there already."""

    def __init__(self) -> None:
        # Nobody can write the sign of a place into a text, for nobody knows it.
        self._sign = f"\0{secrets.token_hex(16)}:"
        self._waiting: list[Draw] = []

    def defer(self, draw: Draw) -> str:
        """What stands in the markup until this is drawn."""
        self._waiting.append(draw)
        return f"{self._sign}{len(self._waiting) - 1}\0"

    def fill(self, markup: str) -> Iterator[str]:
        """The markup from its beginning to its end, each place filled as its turn comes."""
        if not self._waiting:
            yield markup
            return
        for number, part in enumerate(re.split(f"{re.escape(self._sign)}([0-9]+)\0", markup)):
            if number % 2:
                yield from self._waiting[int(part)]()
            else:
                yield part


def split_text(text: str, size: int = PIECE_SIZE) -> Iterator[str]:
    """A text in pieces, each to the end of a line or word: hidden signs are judged by their neighbours."""
    start = 0
    while len(text) - start > size:
        end = _find_piece_end(text, start, start + size)
        yield text[start:end]
        start = end
    yield text[start:]


def split_lines(text: str, size: int = PIECE_SIZE) -> Iterator[str]:
    """A text in pieces of whole lines, without the line ends between them."""
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
