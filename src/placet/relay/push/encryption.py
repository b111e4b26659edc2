"""Encrypt callers' secrets with a key derived from the server's secret."""

import base64
import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class SecretBox:
    """Seals and opens with a key derived from the server's secret."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"placet relay push\0" + secret.encode()).digest())

    def close(self, plain: bytes, about: str) -> bytes:
        """Sealed bytes that open for the same subject only."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, about.encode())

    def open(self, sealed: bytes, about: str) -> bytes | None:
        """What was sealed; None if it was not sealed here, or about something else."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about.encode())
        except (InvalidTag, ValueError):
            return None

    def name(self, *parts: str) -> str:
        """A name for addresses that nobody can guess, and that tells its parts only here."""
        plain = "\0".join(parts).encode()
        return base64.urlsafe_b64encode(self.close(plain, "name")).decode().rstrip("=")

    def parts(self, name: str) -> list[str] | None:
        """The parts of a name that was made here; None for any other."""
        try:
            sealed = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4))
        except ValueError:
            return None
        plain = self.open(sealed, "name")
        return None if plain is None else plain.decode().split("\0")


def hash_token(token: str) -> str:
    """What is kept of a token of the relay's own."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_matches(token: str, kept: str) -> bool:
    """Whether this is the token, in a time that does not tell how near it is."""
    return hmac.compare_digest(hash_token(token), kept)
