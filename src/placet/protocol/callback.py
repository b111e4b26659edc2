"""Sign and verify callbacks.

Two schemes sign the same bytes with the same secret, `whsec_` and the base64 of 24 to 64 random bytes:

- `X-HITL-Signature: sha256=<hex>` is the HMAC-SHA256 of the raw body. Its key is the secret's whole text as
  UTF-8, prefix included: a receiver uses it as it is, without decoding.
- `webhook-id`, `webhook-timestamp` and `webhook-signature: v1,<base64>` follow Standard Webhooks: the
  HMAC-SHA256 of `id.timestamp.body`. Its key is the decoded bytes behind `whsec_`, as that standard says.

While a secret is rotated, `webhook-signature` carries one signature for each secret. `X-HITL-Signature`
always carries exactly one, made with the primary secret: the protocol's receivers compare the whole header.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from placet.errors import SignatureInvalid, ValidationFailed

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of every secret
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
_SECRET_SIZE = f"{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes"

HITL_SIGNATURE = "X-HITL-Signature"
WEBHOOK_ID = "webhook-id"
WEBHOOK_TIMESTAMP = "webhook-timestamp"
WEBHOOK_SIGNATURE = "webhook-signature"
_STANDARD_HEADERS = (WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE)

# No full stop: the part of an id after it could be read as a timestamp.
_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,256}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def format_secret(key: bytes) -> str:
    """Return a secret as text; raises `ValidationFailed` unless `key` has 24 to 64 bytes."""
    if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        raise ValidationFailed(f"A callback secret has {_SECRET_SIZE}.")
    return SECRET_PREFIX + base64.b64encode(key).decode("ascii")


def read_secret_key(secret: str) -> bytes:
    """Return the bytes after `whsec_`; raises `ValidationFailed` if the secret is malformed."""
    key = _decode_secret(secret)
    if key is None:
        raise ValidationFailed(f"A callback secret is {SECRET_PREFIX} and base64 of {_SECRET_SIZE}.")
    return key


def sign_callback(body: bytes, *, secrets: Sequence[str], message_id: str, at: datetime) -> dict[str, str]:
    """Return the headers that sign `body` in both schemes; the first of the secrets is the primary one.

    `message_id` stays the same when the delivery is repeated, `at` is the time of this attempt. Raises
    `ValidationFailed` for a secret, an id or a time that cannot be signed with.
    """
    keys = [read_secret_key(secret) for secret in secrets]
    if not keys:
        raise ValidationFailed("A callback needs a secret to sign it with.")
    if not _MESSAGE_ID.fullmatch(message_id):
        raise ValidationFailed("A message id has 1 to 256 printable ASCII characters and no full stop.")
    timestamp = str(int(_compute_unix_seconds(at)))
    return {
        HITL_SIGNATURE: _compute_hitl_signature(secrets[0], body),
        WEBHOOK_ID: message_id,
        WEBHOOK_TIMESTAMP: timestamp,
        WEBHOOK_SIGNATURE: " ".join(
            _compute_standard_signature(key, message_id, timestamp, body) for key in keys
        ),
    }


def verify_callback(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secrets: Sequence[str],
    now: datetime,
    tolerance_for: timedelta = timedelta(minutes=5),
    accept_untimed: bool = True,
) -> str | None:
    """Check a callback and return its message id, or None if only `X-HITL-Signature` signs it.

    If any Standard Webhooks header is present, all must be valid. `X-HITL-Signature` covers neither id nor
    time, so a captured callback can be replayed; pass `accept_untimed=False` if the sender signs in both
    schemes. Raises `SignatureInvalid` with the reason, also for malformed headers.
    """
    found = _lower_names(headers)
    usable = [secret for secret in secrets if secret]
    if any(name in found for name in _STANDARD_HEADERS):
        return _verify_standard(body, found, usable, now, tolerance_for)
    if not accept_untimed:
        raise SignatureInvalid("The callback carries no Standard Webhooks headers.")
    _verify_hitl(body, found, usable)
    return None


def _verify_standard(
    body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: datetime, tolerance_for: timedelta
) -> str:
    missing = [name for name in _STANDARD_HEADERS if name not in headers]
    if missing:
        raise SignatureInvalid(f"The callback lacks {', '.join(missing)}.")
    message_id, timestamp, signatures = (headers[name] for name in _STANDARD_HEADERS)
    if not _MESSAGE_ID.fullmatch(message_id):
        raise SignatureInvalid("The webhook-id is malformed.")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureInvalid("The webhook-timestamp is not in whole seconds.")
    keys = [key for key in map(_decode_secret, secrets) if key is not None]
    expected = [_compute_standard_signature(key, message_id, timestamp, body) for key in keys]
    _require_match(expected, signatures.split(" "), WEBHOOK_SIGNATURE)
    if abs(_compute_unix_seconds(now) - int(timestamp)) > tolerance_for.total_seconds():
        raise SignatureInvalid("The webhook-timestamp is too far from the present.")
    return message_id


def _verify_hitl(body: bytes, headers: Mapping[str, str], secrets: Sequence[str]) -> None:
    signatures = headers.get(HITL_SIGNATURE.lower())
    if signatures is None:
        raise SignatureInvalid("The callback carries no signature.")
    expected = [_compute_hitl_signature(secret, body) for secret in secrets]
    candidates = [candidate.strip().lower() for candidate in signatures.split(",")]
    _require_match(expected, candidates, HITL_SIGNATURE)


def _require_match(expected: Sequence[str], candidates: Iterable[str], header: str) -> None:
    if not expected:
        raise SignatureInvalid(f"None of the secrets can check {header}.")
    offered = [candidate.encode("utf-8", "replace") for candidate in candidates]
    matches = [hmac.compare_digest(known.encode(), guess) for known in expected for guess in offered]
    if not any(matches):
        raise SignatureInvalid(f"No signature in {header} matches.")


def _compute_hitl_signature(secret: str, body: bytes) -> str:
    key = secret.encode("utf-8", "surrogatepass")
    return "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()


def _compute_standard_signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")


def _decode_secret(secret: str) -> bytes | None:
    if not secret.startswith(SECRET_PREFIX):
        return None
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        return None
    return key if MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES else None


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SignatureInvalid("The callback's headers are not text.")
        if found.setdefault(name.lower(), value) != value:
            raise SignatureInvalid(f"The callback carries two different {name.lower()} headers.")
    return found


def _compute_unix_seconds(moment: datetime) -> float:
    if moment.tzinfo is None:
        raise ValidationFailed("The time of a callback must have a time zone.")
    return moment.timestamp()
