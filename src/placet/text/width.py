"""How wide text is in a terminal."""

import re
import unicodedata

# Joiners, emoji style selectors, and skin tones: drawn together with the character before them.
_JOINED = re.compile("[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


def display_width(text: str) -> int:
    """Return how many columns a text takes; East Asian characters and emoji take two each."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or _JOINED.match(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
