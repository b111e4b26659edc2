"""A check that a text holds nothing that a terminal would obey instead of printing it."""

import re

STYLES = re.compile("|".join(map(re.escape, ("\x1b[1m", "\x1b[2m", "\x1b[0m"))))
"""Bold, dim and reset: the only sequences that the channel writes."""
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def find_control_characters(text: str) -> list[str]:
    """List the characters that a terminal would obey, besides line breaks and our own styles."""
    return [f"U+{ord(found):04X}" for found in OBEYED.findall(STYLES.sub("", text))]
