"""What a terminal shows without obeying it, how wide it is, and a check of texts against that."""

import re
import unicodedata
from urllib.parse import urlsplit

NARROWEST = 20
WIDEST = 100
"""Longer lines are hard to read, however wide the window is."""
LONGEST_LINK = 2048
LONGEST_TYPED = 256
"""Nobody types more than that to choose a number."""
BOLD = "\x1b[1m"
DIM = "\x1b[2m"
RESET = "\x1b[0m"

_OURS = re.compile("|".join(map(re.escape, (BOLD, DIM, RESET))))
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# What has no width of its own: joiners, style selectors, skin tones.
_JOINED = re.compile("[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


def columns(text: str) -> int:
    """How many columns a text takes; signs of East Asia and emoji take two."""
    return sum(_width(character) for character in text)


def is_linkable(url: str) -> bool:
    """Whether a link can be shown whole, in signs that a terminal does not obey."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    fits = len(url) <= LONGEST_LINK and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme in ("http", "https") and bool(parts.netloc)


def misfits(text: str) -> list[str]:
    """What a terminal would obey instead of showing it; nothing if all is well."""
    return [f"U+{ord(found):04X}" for found in _OBEYED.findall(_OURS.sub("", text))]


def _width(character: str) -> int:
    if unicodedata.combining(character) or _JOINED.match(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
