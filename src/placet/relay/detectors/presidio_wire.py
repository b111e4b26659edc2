"""What the relay and its Presidio process say to each other: frames with their length in front."""

import struct
from typing import BinaryIO

import msgspec
from msgspec import Struct

MAX_FRAME = 64 << 20
_LENGTH = struct.Struct("!I")


class Part(Struct, frozen=True, kw_only=True):
    """A part of a piece, and words that say what it may be."""

    piece: int
    offset: int
    text: str
    context: list[str]


class Asked(Struct, frozen=True, kw_only=True):
    """Which entity types to look for, in which parts."""

    entities: list[str]
    parts: list[Part]


class Place(Struct, frozen=True, kw_only=True):
    """An entity in a part."""

    part: int
    start: int
    end: int
    entity: str
    score: float


class Found(Struct, frozen=True, kw_only=True):
    """The entities, or what went wrong; an analyst's first frame says that it is ready, and its pid."""

    places: list[Place] = []
    error: str | None = None
    pid: int = 0


def framed(message: Asked | Found) -> bytes:
    """A message as it goes through the pipe."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def size_of(head: bytes) -> int:
    """How long the message after this head is; raises ValueError for one that cannot be meant."""
    (size,) = _LENGTH.unpack(head)
    if size > MAX_FRAME:
        raise ValueError("a frame is too large")
    return int(size)


HEAD = _LENGTH.size
MARK = b"\xff" * HEAD + b"placet: an analyst is ready"
"""Before the first frame of an analyst; what stands before it was left by one that was ended."""


def read_asked(stream: BinaryIO) -> Asked | None:
    """The next question, or None when there are no more."""
    head = stream.read(HEAD)
    if len(head) < HEAD:
        return None
    return msgspec.msgpack.decode(stream.read(size_of(head)), type=Asked)
