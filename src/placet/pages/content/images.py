"""Images that a page may show: small, in a common format, inline or from the page's own origin."""

import re
from binascii import Error, a2b_base64
from struct import unpack_from
from typing import Any

from markupsafe import escape

MAX_IMAGE_BYTES = 1_000_000
MAX_PATH_LENGTH = 2048
# A small file can still decode to an image that fills a phone's memory.
MAX_PIXELS = 50_000_000

_DATA = re.compile(r"data:image/(png|jpeg|jpg|gif|webp);base64,", re.IGNORECASE)
_PATH = re.compile(r"/(?![/\\])[A-Za-z0-9._~!$&()*+,;=:@%/?-]*")
_PICTURE_FILE = re.compile(r"[^?]*\.(?:png|jpe?g|gif|webp)(?:\?.*)?", re.IGNORECASE)


def render_picture(value: Any, alt: str) -> str | None:
    """Return the image as markup, or None if it may not be shown; `alt` is markup for an attribute."""
    if not isinstance(value, str):
        return None
    size = _measure_data(value) if value[:5].lower() == "data:" else None
    if size is None and not is_own_path(value):
        return None
    known = f' width="{size[0]}" height="{size[1]}"' if size else ""
    return f'<img src="{escape(value)}" alt="{alt}"{known} loading="lazy" decoding="async">'


def is_own_path(value: str) -> bool:
    """Whether this is the path of an image on the page's own origin."""
    return len(value) <= MAX_PATH_LENGTH and bool(_PATH.fullmatch(value) and _PICTURE_FILE.fullmatch(value))


def data_url_from_base64(media: str, text: str) -> str | None:
    """Return the data URL of an image given as Base64, or None if it is not an image."""
    address = f"data:{media};base64,{text.strip()}"
    return address if _measure_data(address) else None


def _measure_data(address: str) -> tuple[int, int] | None:
    """Return width and height of the image in a data URL, or None if the bytes do not match its type."""
    start = _DATA.match(address)
    if not start or len(address) > MAX_IMAGE_BYTES * 4 // 3:
        return None
    try:
        data = a2b_base64(address[start.end() :].encode("ascii"), strict_mode=True)
    except (Error, ValueError):
        return None
    format = start[1].lower().replace("jpg", "jpeg")
    size = _SIZES[format](data)
    return size if size and 0 < size[0] * size[1] <= MAX_PIXELS else None


def _measure_png(data: bytes) -> tuple[int, int] | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    width, height = unpack_from(">II", data, 16)
    return width, height


def _measure_gif(data: bytes) -> tuple[int, int] | None:
    if data[:6] not in (b"GIF87a", b"GIF89a") or len(data) < 14:
        return None
    width, height = unpack_from("<HH", data, 6)
    return width, height


def _measure_webp(data: bytes) -> tuple[int, int] | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    if data[12:16] == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if data[12:16] == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _measure_jpeg(data: bytes) -> tuple[int, int] | None:
    if data[:3] != b"\xff\xd8\xff":
        return None
    offset = 2
    while offset + 9 < len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = unpack_from(">HH", data, offset + 5)
            return width, height
        (length,) = unpack_from(">H", data, offset + 2)
        offset += 2 + max(length, 2)
    return None


_SIZES = {"png": _measure_png, "gif": _measure_gif, "webp": _measure_webp, "jpeg": _measure_jpeg}
