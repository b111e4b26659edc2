"""Decode and encode the text content of files that travel as base64."""

import base64
import binascii
import codecs
import re
from urllib.parse import unquote

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_STANDARD = str.maketrans("-_", "+/")
_BASE64_DATA = re.compile(r";base64,([A-Za-z0-9+/_=-]+)", re.IGNORECASE)
MAX_MEDIA_TYPE = 200
"""So far before its content an address within a text may begin."""
_PAGE_PREFIXES = ("%PDF-", "%!PS", "{\\rtf")
PROBE_CHARACTERS = 1024
"""So many characters tell most files that are no text, before all of them is unpacked."""


def is_page_description(text: str) -> bool:
    """Whether a text is a program that draws a page: what a reader of the page sees need not stand in it."""
    return text.lstrip("\ufeff \t\r\n").startswith(_PAGE_PREFIXES)


def decode_text_file(content: str) -> str | None:
    """The text of a file; None for a file that is no text in UTF-8, or no base64 at all.

    Readers take both alphabets of base64, with and without padding, and leave out whatever else there is:
    what any of them would read is read.
    """
    plain = _NOT_BASE64.sub("", content.translate(_STANDARD))
    try:
        if _decode_text(_decode_base64(plain[:PROBE_CHARACTERS]), final=False) is None:
            return None
        return _decode_text(_decode_base64(plain), final=True) or None
    except (binascii.Error, ValueError):
        return None


def decode_data_url(address: str) -> str | None:
    """The text of a file that stands in its `data:` address itself; None as for any file."""
    kind, _, content = address.partition(",")
    plain = unquote(content)
    return decode_text_file(plain) if kind.strip().lower().endswith("base64") else plain or None


def find_data_urls(text: str) -> list[str]:
    """The content of all files that stand in `data:` addresses within a text, as pictures in Markdown do."""
    if "ase64," not in text and "ASE64," not in text:
        return []
    return [
        found[1]
        for found in _BASE64_DATA.finditer(text)
        if "data:" in text[max(0, found.start() - MAX_MEDIA_TYPE) : found.start()].lower()
    ]


def encode_text_file(text: str) -> str:
    """A file of this text."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _decode_base64(plain: str) -> bytes:
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def _decode_text(data: bytes, *, final: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=final)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
