"""Which characters text from outside may carry: what every store keeps and no terminal obeys."""

import re

# Lone surrogates have no UTF-8 form, PostgreSQL refuses NUL, other control characters drive terminals.
_UNSTORABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_LINE_BREAK = re.compile("[\n\x0b\x0c\r\x85\u2028\u2029]")


def is_storable(text: str) -> bool:
    """Whether text can be kept, sent and shown as it is."""
    return _UNSTORABLE.search(text) is None


def is_one_line(text: str) -> bool:
    """Whether text holds no line break of any kind."""
    return _LINE_BREAK.search(text) is None


def plain_lines(text: str) -> str:
    """The text with newlines as one character, whatever made them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
