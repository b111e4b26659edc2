"""Verify that Slack sent a request: its signature and timestamp."""

import hmac
from hashlib import sha256

from placet.errors import SignatureInvalid
from placet.ports.channel import WebhookRequest

MAX_SIGNATURE_AGE_S = 300
"""How far the timestamp of a signature may be from now."""


def verify_request(request: WebhookRequest, secret: str, now: float) -> None:
    """Raise SignatureInvalid unless Slack signed this body within the last minutes."""
    stamp = request.headers.get("x-slack-request-timestamp", "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
        raise SignatureInvalid("The request has no timestamp.")
    if abs(now - int(stamp)) > MAX_SIGNATURE_AGE_S:
        raise SignatureInvalid("The request was signed too long ago.")
    signed = b"v0:" + stamp.encode() + b":" + request.body
    expected = "v0=" + hmac.new(secret.encode(), signed, sha256).hexdigest()
    given = request.headers.get("x-slack-signature", "")
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise SignatureInvalid("The request is not signed by Slack.")
