"""Idempotency keys: the first response is stored, encrypted with the idempotency key.

The response contains tokens, and only digests of tokens may be stored. The idempotency key is not stored, so
the response can only be read by a client that sends the same key again.
"""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from placet.errors import ValidationFailed
from placet.ports.case_store import IdempotencyRecord

MAX_KEY_LENGTH = 255
_NONCE = bytes(12)  # each sealing key is used for one message only


def check_key(key: str) -> str:
    """Return the Idempotency-Key if it is valid. Raises ValidationFailed."""
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise ValidationFailed(f"Idempotency-Key must be 1 to {MAX_KEY_LENGTH} printable characters.")
    return key


def digest(*parts: str | bytes) -> str:
    """Return one digest of several parts. Each part is preceded by its length."""
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(len(raw).to_bytes(8, "big") + raw)
    return hashed.hexdigest()


def seal(answer: bytes, *, owner: str, key: str, case_id: str) -> bytes:
    """Encrypt the response with a key derived from the idempotency key."""
    return (
        case_id.encode()
        + b"\n"
        + AESGCM(_derive_sealing_key(owner, key, case_id)).encrypt(_NONCE, answer, None)
    )


def unseal(replay: IdempotencyRecord, *, key: str, request_digest: str) -> tuple[str, bytes]:
    """Return the case's id and the first response. Raises ValidationFailed if the request is another one."""
    if replay.request_digest != request_digest:
        raise ValidationFailed("This Idempotency-Key was used with a different body; use a new key.")
    case_id, _, sealed = replay.sealed_response.partition(b"\n")
    try:
        opened = AESGCM(_derive_sealing_key(replay.owner, key, case_id.decode())).decrypt(
            _NONCE, sealed, None
        )
    except InvalidTag as error:
        raise ValidationFailed(
            "The first response to this Idempotency-Key cannot be decrypted. Use a new key."
        ) from error
    return case_id.decode(), opened


def _derive_sealing_key(owner: str, key: str, case_id: str) -> bytes:
    return bytes.fromhex(digest("placet replay", owner, key, case_id))
