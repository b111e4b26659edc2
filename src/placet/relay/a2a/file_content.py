"""Decode and encode the text of files in base64."""

import base64
import binascii
import codecs
import re
from typing import Any
from urllib.parse import unquote

from placet.relay.a2a.text_normalization import compile_re2

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_STANDARD = str.maketrans("-_", "+/")
_BASE64_DATA = re.compile(r";base64,([A-Za-z0-9+/_=-]+)", re.IGNORECASE)
MAX_MEDIA_TYPE_LENGTH = 200
"""The maximum number of characters between `data:` and the content of a data URL in a text."""
# Beginnings of PDF, ZIP, PNG, JPEG, GIF, gzip, OLE, RTF, bzip2, xz and 7z files in base64.
_BINARY_STARTS = r"JVBERi0|UEsDB|iVBORw0KGgo|/9j/|R0lGOD|H4sI[A-Za-f]|0M8R4KGx|e1xydG|QlpoO|/Td6WFo|N3q8ryc"
MIN_FILE_CHARACTERS = 1_024
"""The minimum length of base64 in a text that may be an unknown file. Shorter ones are often keys."""
_LINE = "[A-Za-z0-9+/_-]{40,}={0,2}"
_LINES = rf"{_LINE}(?:\s{{1,4}}{_LINE})*(?:\s{{1,4}}[A-Za-z0-9+/_-]{{1,39}}={{0,2}})?"
_EMBEDDED = re.compile(
    rf"(?<![A-Za-z0-9+/_-])"
    rf"(?:(?P<known>(?:{_BINARY_STARTS})[A-Za-z0-9+/_-]{{18,}}={{0,2}})|(?P<unknown>{_LINES}))"
)
_may_embed: Any = compile_re2(rf"{_BINARY_STARTS}|[A-Za-z0-9+/_-]{{40}}").search
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


def decode_file_bytes(content: str) -> bytes | None:
    """Return the bytes of a file in base64 or in a `data:` URL, or None if they cannot be decoded.

    Reads base64 as `decode_text_file` does.
    """
    if content[:5].lower() == "data:":
        media_type, _, encoded = content.partition(",")
        content = unquote(encoded)
        if not media_type.strip().lower().endswith("base64"):
            return content.encode("utf-8", "replace")
    try:
        return _decode_base64(_NOT_BASE64.sub("", content.translate(_STANDARD)))
    except (binascii.Error, ValueError):
        return None


def find_data_urls(text: str) -> list[str]:
    """Return the base64 content of all `data:` URLs in a text, such as images in Markdown."""
    if "ase64," not in text and "ASE64," not in text:
        return []
    return [
        found[1]
        for found in _BASE64_DATA.finditer(text)
        if "data:" in text[max(0, found.start() - MAX_MEDIA_TYPE_LENGTH) : found.start()].lower()
    ]


def find_embedded_files(text: str) -> list[str]:
    """Return the base64 in a text that is probably a file that is not text."""
    if _may_embed(text.encode("utf-8", "replace")) is None:
        return []
    return [
        found[0]
        for found in _EMBEDDED.finditer(text)
        if (found["known"] is not None or len(found[0]) >= MIN_FILE_CHARACTERS)
        and ((decoded := decode_text_file(found[0])) is None or is_page_description(decoded))
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
