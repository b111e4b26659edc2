"""Encoding threads as JSON text: always ASCII, fast in the usual case, and correct for any value."""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple


def encode_json(value: Any) -> str:
    """Return a JSON value as ASCII text."""
    try:
        encoded = _load_codec().encode(value)
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, or a subclass msgspec does not know
        return json.dumps(value)
    return encoded.decode("ascii") if encoded.isascii() else json.dumps(value)


def decode_json(text: str) -> Any:
    """Return the value that `encode_json` wrote; raises ValueError for anything else."""
    try:
        return _load_codec().decode(text)
    except ValueError:
        return json.loads(text)


def digest_json(value: Any) -> str:
    """Return a digest of a JSON value that ignores the order of members; other values count as their text."""
    try:
        encoded = _load_codec().encode_sorted(value)
    except (TypeError, ValueError, RecursionError):
        encoded = encode_canonical_json(value)
    return sha256(encoded).hexdigest()


def encode_canonical_json(value: Any) -> bytes:
    """Return the one canonical encoding of a JSON value; other values are encoded as their text."""
    return _encode_sorted(value).encode("utf-8", "surrogatepass")


class _Codec(NamedTuple):
    encode: Callable[[Any], bytes]
    encode_sorted: Callable[[Any], bytes]
    decode: Callable[[str], Any]


@cache
def _load_codec() -> _Codec:
    """Build the codec when the first thread is written or read, so that importing the hook stays cheap."""
    from msgspec.json import Decoder, Encoder

    return _Codec(Encoder().encode, Encoder(enc_hook=str, order="sorted").encode, Decoder().decode)


_encode_sorted = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
).encode
