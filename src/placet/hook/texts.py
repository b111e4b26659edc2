"""JSON as threads are kept in: one ASCII text, whatever it says. What is usual is written and read fast."""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple


def write(value: Any) -> str:
    """A JSON value as text."""
    try:
        written = _spelling().write(value)
    except (TypeError, ValueError, RecursionError):  # half a character, or what only its base class can be
        return json.dumps(value)
    return written.decode("ascii") if written.isascii() else json.dumps(value)


def read(text: str) -> Any:
    """What `write` wrote; raises ValueError for anything else."""
    try:
        return _spelling().read(text)
    except ValueError:
        return json.loads(text)


def fingerprint(value: Any) -> str:
    """A digest of a JSON value, however its members are ordered; what is no JSON counts as its text."""
    try:
        spelled = _spelling().sort(value)
    except (TypeError, ValueError, RecursionError):
        spelled = canonical(value)
    return sha256(spelled).hexdigest()


def canonical(value: Any) -> bytes:
    """One spelling of a JSON value; what is no JSON is spelled as its text."""
    return _spelled(value).encode("utf-8", "surrogatepass")


class _Spelling(NamedTuple):
    write: Callable[[Any], bytes]
    sort: Callable[[Any], bytes]
    read: Callable[[str], Any]


@cache
def _spelling() -> _Spelling:
    """Made when the first thread is written or read: loading the hook loads nothing but the hook."""
    from msgspec.json import Decoder, Encoder

    return _Spelling(Encoder().encode, Encoder(enc_hook=str, order="sorted").encode, Decoder().decode)


_spelled = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode
