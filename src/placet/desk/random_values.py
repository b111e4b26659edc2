"""The only source of ids, tokens and dice."""

import base64
import os
import random
import secrets
from datetime import datetime

_dice = random.SystemRandom()
_SALT_BYTES, _DRAWN = 16, 256
_salts: list[str] = []
os.register_at_fork(after_in_child=_salts.clear)


def generate_case_id(now: datetime) -> str:
    """A new case's id: the millisecond, then 80 random bits, URL-safe, in the form the spec recommends.

    Cases opened together stand together in a store's indexes, which is where they are looked for together.
    """
    return f"review_{int(now.timestamp() * 1000):012x}{os.urandom(10).hex()}"


def generate_grant_id(now: datetime) -> str:
    """A new grant's id, made as a case's is."""
    return f"grant_{int(now.timestamp() * 1000):012x}{os.urandom(10).hex()}"


def generate_token() -> str:
    """A bearer token: 32 random bytes as 43 base64url characters (ruling 9)."""
    return secrets.token_urlsafe(32)


def generate_api_key() -> str:
    """An API key with a prefix that scanners of leaked secrets can recognise."""
    return f"placet_{secrets.token_urlsafe(32)}"


def generate_callback_secret() -> str:
    """A shared secret in the Standard Webhooks form."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def generate_salt() -> str:
    """What keeps erased event data from being guessed back; drawn many at a time, and each given once."""
    while True:
        try:
            return _salts.pop()
        except IndexError:
            drawn = os.urandom(_SALT_BYTES * _DRAWN).hex()
            width = 2 * _SALT_BYTES
            _salts.extend(drawn[at : at + width] for at in range(0, len(drawn), width))


def generate_message_id() -> str:
    """The id of a delivery."""
    return f"msg_{secrets.token_hex(16)}"


def generate_correlation_id(now: datetime) -> str:
    """An id for a call and all that belongs to it; they rise with the time, so that neighbours in time are
    neighbours in a store's indexes."""
    return f"{int(now.timestamp() * 1_000_000):014x}{os.urandom(9).hex()}"


def generate_short_id() -> str:
    """An id for a key or a request."""
    return secrets.token_hex(6)


def generate_jitter() -> float:
    """A number in [0, 1) that spreads retries."""
    return _dice.random()


def generate_secret() -> str:
    """A server's own key, as hex."""
    return secrets.token_hex(32)


def generate_record_id(kind: str, now: datetime) -> str:
    """The id of something an operator sets up, made as a case's is."""
    return f"{kind}_{int(now.timestamp() * 1000):012x}{os.urandom(10).hex()}"
