"""Verify that Discord sent a request: its signature and timestamp."""

from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from placet.errors import SignatureInvalid
from placet.ports.channel import WebhookRequest

SIGNATURE_HEADER = "x-signature-ed25519"
TIMESTAMP_HEADER = "x-signature-timestamp"
MAX_SIGNATURE_AGE_S = 5 * 60
"""How far the timestamp of a signature may be from now."""


def verify_request(request: WebhookRequest, key: Ed25519PublicKey, now: datetime) -> None:
    """Raise SignatureInvalid unless Discord signed this request within the last minutes."""
    timestamp = request.headers.get(TIMESTAMP_HEADER, "")
    try:
        signature = bytes.fromhex(request.headers.get(SIGNATURE_HEADER, ""))
        key.verify(signature, timestamp.encode() + request.body)
        age_s = now.timestamp() - int(timestamp)
    except (InvalidSignature, ValueError):
        raise SignatureInvalid("The request is not signed by Discord.") from None
    if abs(age_s) > MAX_SIGNATURE_AGE_S:
        raise SignatureInvalid("The request was signed too long ago.")
