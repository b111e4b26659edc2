import base64
import hashlib
import hmac


def is_genuine(body: bytes, headers: dict[str, str], secret: str) -> bool:
    """Standard Webhooks: HMAC-SHA256 of `id.timestamp.body`, keyed by the bytes behind `whsec_`."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, one) for one in headers["webhook-signature"].split(" "))


def is_genuine_hitl(body: bytes, headers: dict[str, str], secret: str) -> bool:
    """X-HITL-Signature: HMAC-SHA256 of the body, keyed by the secret's whole text."""
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, headers["X-HITL-Signature"])


# What follows is for the tests.
from datetime import UTC, datetime  # noqa: E402

from placet.protocol.callback import format_secret, sign_callback  # noqa: E402

BODY = b'{"event":"review.completed"}'
OLD, NEW = format_secret(b"o" * 32), format_secret(b"n" * 32)
SIGNED = sign_callback(BODY, secrets=[OLD, NEW], message_id="msg_1", at=datetime.now(UTC))
for check in (is_genuine, is_genuine_hitl):
    assert check(BODY, SIGNED, OLD)
    assert not check(BODY + b" ", SIGNED, OLD)
    assert not check(BODY, SIGNED, format_secret(b"x" * 32))
assert is_genuine(BODY, SIGNED, NEW)
assert not is_genuine_hitl(BODY, SIGNED, NEW)
