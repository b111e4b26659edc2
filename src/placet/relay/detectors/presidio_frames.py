"""Length-prefixed messages between the relay and its Presidio process."""

import struct
from typing import BinaryIO

import msgspec
from msgspec import Struct

MAX_FRAME = 64 << 20
_LENGTH = struct.Struct("!I")


class TextPart(Struct, frozen=True, kw_only=True):
    """A part of a piece, and words that say what it may be."""

    piece: int
    offset: int
    text: str
    context: list[str]


class AnalysisRequest(Struct, frozen=True, kw_only=True):
    """Which entity types to look for, in which parts."""

    entities: list[str]
    parts: list[TextPart]


class FoundEntity(Struct, frozen=True, kw_only=True):
    """An entity in a part."""

    part: int
    start: int
    end: int
    entity: str
    score: float


class AnalysisResult(Struct, frozen=True, kw_only=True):
    """The entities, or what went wrong; an analyst's first frame says that it is ready, and its pid."""

    places: list[FoundEntity] = []
    error: str | None = None
    pid: int = 0


def encode_frame(message: AnalysisRequest | AnalysisResult) -> bytes:
    """A message as it goes through the pipe."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def parse_frame_size(head: bytes) -> int:
    """How long the message after this head is; raises ValueError for one that cannot be meant."""
    (size,) = _LENGTH.unpack(head)
    if size > MAX_FRAME:
        raise ValueError("a frame is too large")
    return int(size)


HEAD_BYTES = _LENGTH.size
READY_MARK = b"\xff" * HEAD_BYTES + b"placet: an analyst is ready"
"""Before the first frame of an analyst; what stands before it was left by one that was ended."""


def read_request(stream: BinaryIO) -> AnalysisRequest | None:
    """The next question, or None when there are no more."""
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    return msgspec.msgpack.decode(stream.read(parse_frame_size(head)), type=AnalysisRequest)
