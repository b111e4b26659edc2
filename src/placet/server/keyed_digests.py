"""Keyed digests (HMAC): cookies and tokens that only this server can make, compared in constant time."""

import hashlib
import hmac


def sign(key: bytes, *parts: str) -> str:
    """Return the HMAC-SHA256 of these parts in hexadecimal."""
    return hmac.new(key, _encode("\n".join(parts)), hashlib.sha256).hexdigest()


def is_same(presented: str, expected: str) -> bool:
    """Whether two texts are equal, compared in constant time."""
    return hmac.compare_digest(_encode(presented), _encode(expected))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
