"""Idempotency keys: the first answer is kept, sealed under the key itself for its holder to read again.

The answer to opening a case carries tokens whose digests alone may be stored; sealing it under something the
store does not hold keeps that promise.
"""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from placet.errors import ValidationFailed
from placet.ports.case_store import IdempotencyRecord

MAX_KEY_LENGTH = 255
_NONCE = bytes(12)  # each sealing key is used for one message only


def check_key(key: str) -> str:
    """The Idempotency-Key, or a refusal that says what one looks like."""
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise ValidationFailed(f"Idempotency-Key must be 1 to {MAX_KEY_LENGTH} printable characters.")
    return key


def digest(*parts: str | bytes) -> str:
    """One digest over several parts that cannot run into each other."""
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(len(raw).to_bytes(8, "big") + raw)
    return hashed.hexdigest()


def seal(answer: bytes, *, owner: str, key: str, case_id: str) -> bytes:
    """The answer, readable again only with the same key."""
    return case_id.encode() + b"\n" + AESGCM(_sealing_key(owner, key, case_id)).encrypt(_NONCE, answer, None)


def unseal(replay: IdempotencyRecord, *, key: str, request_digest: str) -> tuple[str, bytes]:
    """The case's id and the first answer; raises ValidationFailed if the key was used for another request."""
    if replay.request_digest != request_digest:
        raise ValidationFailed("This Idempotency-Key was used with a different body; use a new key.")
    case_id, _, sealed = replay.sealed_response.partition(b"\n")
    try:
        opened = AESGCM(_sealing_key(replay.owner, key, case_id.decode())).decrypt(_NONCE, sealed, None)
    except InvalidTag as error:
        raise ValidationFailed("This Idempotency-Key does not open the stored answer.") from error
    return case_id.decode(), opened


def _sealing_key(owner: str, key: str, case_id: str) -> bytes:
    return bytes.fromhex(digest("placet replay", owner, key, case_id))
