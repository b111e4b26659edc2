"""Tokens: only their digests are stored, and they are compared in constant time (ruling 9)."""

import hashlib
import hmac
from collections.abc import Iterable

TOKEN_LENGTH = 43  # 32 random bytes as base64url


def digest_token(token: str) -> str:
    """Return the SHA-256 of a token, the only part of it that is stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def find_matching_digest(token: str, digests: Iterable[str]) -> str | None:
    """Return the digest that matches this token, or None. Compare every candidate in constant time."""
    presented = digest_token(token)
    found = None
    for digest in digests:
        if hmac.compare_digest(presented, digest):
            found = digest
    return found
