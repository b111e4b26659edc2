"""Tokens: only their digests are kept, and digests are compared in constant time (ruling 9)."""

import hashlib
import hmac
from collections.abc import Iterable

TOKEN_LENGTH = 43  # 32 random bytes as base64url


def token_digest(token: str) -> str:
    """SHA-256 of a token: all that is ever stored of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def find_matching_digest(token: str, digests: Iterable[str]) -> str | None:
    """The digest this token opens, or None; every candidate is compared, in constant time."""
    presented = token_digest(token)
    found = None
    for digest in digests:
        if hmac.compare_digest(presented, digest):
            found = digest
    return found
