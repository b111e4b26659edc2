"""Encrypt callers' secrets with a key derived from the server's secret."""

import base64
import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class SecretBox:
    """Encrypts and decrypts with a key derived from the server's secret."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"placet relay push\0" + secret.encode()).digest())

    def encrypt(self, plain: bytes, subject: str) -> bytes:
        """Return the bytes encrypted. They can only be decrypted with the same subject."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, subject.encode())

    def decrypt(self, encrypted: bytes, subject: str) -> bytes | None:
        """Return the decrypted bytes; None if the key or the subject is different."""
        try:
            return self._cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], subject.encode())
        except (InvalidTag, ValueError):
            return None

    def encrypt_id(self, *parts: str) -> str:
        """Return an id for URLs that cannot be guessed and contains the parts encrypted."""
        plain = "\0".join(parts).encode()
        return base64.urlsafe_b64encode(self.encrypt(plain, "name")).decode().rstrip("=")

    def decrypt_id(self, id: str) -> list[str] | None:
        """Return the parts of an id; None if `encrypt_id` did not create it."""
        try:
            encrypted = base64.urlsafe_b64decode(id + "=" * (-len(id) % 4))
        except ValueError:
            return None
        plain = self.decrypt(encrypted, "name")
        return None if plain is None else plain.decode().split("\0")


def hash_token(token: str) -> str:
    """Return the digest under which the relay stores a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_matches(token: str, digest: str) -> bool:
    """Return whether the token has this digest, in constant time."""
    return hmac.compare_digest(hash_token(token), digest)
