"""Describe the files of a held message that no policy can read, for the reviewer."""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from placet.relay.a2a.text_extraction import UnreadableContent, decode_file_bytes
from placet.relay.holds.message_excerpts import format_label

MAX_FILES = 200
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
)


def describe_files(files: Sequence[UnreadableContent], *, room: int) -> dict[str, Any]:
    """Return the files with their content, if it fits in `room` bytes, and the number of omitted files."""
    described = []
    for file in files[:MAX_FILES]:
        facts = _describe_file(file)
        room -= len(facts["content"])
        described.append(facts if room >= 0 else {**facts, "content": None})
    return {"files": described, "files_left_out": max(0, len(files) - MAX_FILES)}


def _describe_file(file: UnreadableContent) -> dict[str, Any]:
    data = decode_file_bytes(file.content)
    if data is None:  # the receiver may decode it in another way: show the text that it gets
        data = file.content.encode("utf-8", "replace")
    return {
        "path": format_label(file.path),
        "name": format_label(file.name or "") or None,
        "declared_type": format_label(file.media_type or "") or None,
        "type": _detect_type(data),
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "content": base64.b64encode(data).decode(),
    }


def _detect_type(data: bytes) -> str | None:
    """Return the media type according to the first bytes, or None if they are not known."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _SIGNATURES if data.startswith(start)), None)
