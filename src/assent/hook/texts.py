"""JSON as threads are kept in: one ASCII text, whatever it says. What is usual is written and read fast."""

import json
from hashlib import sha256
from typing import Any


def write(value: Any) -> str:
    """A JSON value as text."""
    import msgspec

    try:
        written = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):  # half a character, or what only its base class can be
        return json.dumps(value)
    return written.decode("ascii") if written.isascii() else json.dumps(value)


def read(text: str) -> Any:
    """What `write` wrote; raises ValueError for anything else."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return json.loads(text)


def fingerprint(value: Any) -> str:
    """A digest of a JSON value, however its members are ordered; what is no JSON counts as its text."""
    import msgspec

    try:
        spelled = msgspec.json.encode(value, enc_hook=str, order="sorted")
    except (TypeError, ValueError, RecursionError):
        spelled = canonical(value)
    return sha256(spelled).hexdigest()


def canonical(value: Any) -> bytes:
    """One spelling of a JSON value; what is no JSON is spelled as its text."""
    return _spelled(value).encode("utf-8", "surrogatepass")


_spelled = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode
