"""The only source of ids, tokens, secrets and random numbers."""

import base64
import os
import random
import secrets
from datetime import datetime

_system_random = random.SystemRandom()
_CHUNK_BYTES, _BATCH = 16, 256
_chunks: list[bytes] = []
os.register_at_fork(after_in_child=_chunks.clear)


def generate_case_id(now: datetime) -> str:
    """Return an id for a case: the millisecond, then 80 random bits, in the form the spec recommends.

    Ids created close in time are close in a store's indexes.
    """
    return f"review_{int(now.timestamp() * 1000):012x}{_draw_chunk()[:10].hex()}"


def generate_grant_id(now: datetime) -> str:
    """Return an id for a grant, in the same form as that of a case."""
    return f"grant_{int(now.timestamp() * 1000):012x}{os.urandom(10).hex()}"


def generate_token() -> str:
    """Return a bearer token: 32 random bytes as 43 base64url characters (ruling 9)."""
    return base64.urlsafe_b64encode(_draw_chunk() + _draw_chunk())[:43].decode()


def generate_api_key() -> str:
    """Return an API key with a prefix that secret scanners can recognise."""
    return f"placet_{secrets.token_urlsafe(32)}"


def generate_callback_secret() -> str:
    """Return a shared secret in the Standard Webhooks form."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def generate_salt() -> str:
    """Return a salt, so that erased event data cannot be guessed from digests."""
    return _draw_chunk().hex()


def generate_message_id() -> str:
    """Return an id for a delivery."""
    return f"msg_{secrets.token_hex(16)}"


def generate_correlation_id(now: datetime) -> str:
    """Return an id for a call and its events. Ids rise with time, so they are close in a store's indexes."""
    return f"{int(now.timestamp() * 1_000_000):014x}{os.urandom(9).hex()}"


def generate_short_id() -> str:
    """Return a short id for a key or a request."""
    return secrets.token_hex(6)


def generate_user_handle() -> str:
    """Return what authenticators store for a person, as base64url; it says nothing about them."""
    return secrets.token_urlsafe(32)


def generate_code() -> str:
    """Return a one-time code of eight digits."""
    return f"{secrets.randbelow(10**8):08d}"


def generate_jitter() -> float:
    """Return a number in [0, 1) that spreads retries."""
    return _system_random.random()


def generate_secret() -> str:
    """Return a secret key for a server, in hexadecimal."""
    return secrets.token_hex(32)


def generate_record_id(kind: str, now: datetime) -> str:
    """Return an id for a configuration record, in the same form as that of a case."""
    return f"{kind}_{int(now.timestamp() * 1000):012x}{os.urandom(10).hex()}"


def _draw_chunk() -> bytes:
    """Return 16 random bytes. They are drawn in batches: one call costs the system as much as many bytes."""
    while True:
        try:
            return _chunks.pop()
        except IndexError:
            drawn = os.urandom(_CHUNK_BYTES * _BATCH)
            _chunks.extend(drawn[at : at + _CHUNK_BYTES] for at in range(0, len(drawn), _CHUNK_BYTES))
