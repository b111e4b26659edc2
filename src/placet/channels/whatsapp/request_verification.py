"""Verify that WhatsApp sent a request: the signature of the body, or the verify token of a new webhook."""

import hashlib
import hmac
import re

from placet.errors import SignatureInvalid
from placet.ports.channel import WebhookRequest

SIGNATURE_HEADER = "x-hub-signature-256"

_CHALLENGE = re.compile(r"[A-Za-z0-9_.-]{1,256}")


def verify_request(request: WebhookRequest, app_secret: str) -> None:
    """Raise SignatureInvalid unless WhatsApp signed this body."""
    expected = hmac.new(app_secret.encode(), request.body, hashlib.sha256).hexdigest()
    if not _is_same(request.headers.get(SIGNATURE_HEADER, ""), f"sha256={expected}"):
        raise SignatureInvalid("The request is not signed by WhatsApp.")


def verify_challenge(request: WebhookRequest, verify_token: str) -> str:
    """Return the challenge to answer; raise SignatureInvalid unless the request carries the verify token."""
    given, challenge = request.query.get("hub.verify_token", ""), request.query.get("hub.challenge", "")
    if request.query.get("hub.mode") != "subscribe" or not _is_same(given, verify_token):
        raise SignatureInvalid("The request does not carry the webhook's verify token.")
    if not _CHALLENGE.fullmatch(challenge):
        raise SignatureInvalid("The challenge is not valid.")
    return challenge


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
