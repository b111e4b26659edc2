"""Decode and encode the text of files in base64."""

import base64
import binascii
import codecs
import re
from urllib.parse import unquote

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_STANDARD = str.maketrans("-_", "+/")
_BASE64_DATA = re.compile(r";base64,([A-Za-z0-9+/_=-]+)", re.IGNORECASE)
MAX_MEDIA_TYPE_LENGTH = 200
"""The maximum number of characters between `data:` and the content of a data URL in a text."""
_PAGE_PREFIXES = ("%PDF-", "%!PS", "{\\rtf")
PROBE_CHARACTERS = 1024
"""The number of characters to decode first. They identify most binary files without decoding the rest."""


def is_page_description(text: str) -> bool:
    """Whether a text is PDF, PostScript or RTF source, which may not contain the text that its page shows."""
    return text.lstrip("\ufeff \t\r\n").startswith(_PAGE_PREFIXES)


def decode_text_file(content: str) -> str | None:
    """Return the text of a file, or None if it is not base64 or not UTF-8 text.

    Accepts both base64 alphabets, with or without padding, and ignores other characters, because some
    decoders do.
    """
    plain = _NOT_BASE64.sub("", content.translate(_STANDARD))
    try:
        if _decode_text(_decode_base64(plain[:PROBE_CHARACTERS]), final=False) is None:
            return None
        return _decode_text(_decode_base64(plain), final=True) or None
    except (binascii.Error, ValueError):
        return None


def decode_data_url(url: str) -> str | None:
    """Return the text of the file in a `data:` URL, or None if it is not text."""
    media_type, _, content = url.partition(",")
    plain = unquote(content)
    return decode_text_file(plain) if media_type.strip().lower().endswith("base64") else plain or None


def find_data_urls(text: str) -> list[str]:
    """Return the base64 content of all `data:` URLs in a text, such as images in Markdown."""
    if "ase64," not in text and "ASE64," not in text:
        return []
    return [
        found[1]
        for found in _BASE64_DATA.finditer(text)
        if "data:" in text[max(0, found.start() - MAX_MEDIA_TYPE_LENGTH) : found.start()].lower()
    ]


def encode_text_file(text: str) -> str:
    """Return the text as a file in base64."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _decode_base64(plain: str) -> bytes:
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def _decode_text(data: bytes, *, final: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=final)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
