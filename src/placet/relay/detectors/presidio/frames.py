"""Encode and decode the length-prefixed messages between the relay and its Presidio process."""

import struct
from typing import BinaryIO

import msgspec
from msgspec import Struct

MAX_FRAME = 64 << 20
_LENGTH = struct.Struct("!I")


class TextPart(Struct, frozen=True, kw_only=True):
    """A part of a piece with its context words."""

    piece: int
    offset: int
    text: str
    context: list[str]


class AnalysisRequest(Struct, frozen=True, kw_only=True):
    """The entity types to detect, and the parts to scan."""

    entities: list[str]
    parts: list[TextPart]


class FoundEntity(Struct, frozen=True, kw_only=True):
    """An entity that was found in a part."""

    part: int
    start: int
    end: int
    entity: str
    score: float
    context: list[str] = []
    """The words that would have raised the score, if none of them is near."""


class AnalysisResult(Struct, frozen=True, kw_only=True):
    """The entities of one request, or an error. The first frame of a worker has its pid instead."""

    entities: list[FoundEntity] = []
    rejected: list[FoundEntity] = []
    """What has the form of an entity, but not its check digit, or is known as a sample."""
    error: str | None = None
    pid: int = 0


def encode_frame(message: AnalysisRequest | AnalysisResult) -> bytes:
    """Return the message as one frame."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def parse_frame_size(head: bytes) -> int:
    """Return the size of the message after this header. Raises ValueError if it is too large."""
    (size,) = _LENGTH.unpack(head)
    if size > MAX_FRAME:
        raise ValueError(f"a frame has {size} bytes; at most {MAX_FRAME} are allowed")
    return int(size)


HEAD_BYTES = _LENGTH.size
READY_MARK = b"\xff" * HEAD_BYTES + b"placet: worker ready"
"""Precedes the first frame of a worker. Bytes before it come from a worker that was killed."""


def read_request(stream: BinaryIO) -> AnalysisRequest | None:
    """Return the next request, or None at the end of the stream."""
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    return msgspec.msgpack.decode(stream.read(parse_frame_size(head)), type=AnalysisRequest)
