"""Verify that Telegram sent a request: it carries the secret that you gave to setWebhook."""

import hmac

from placet.errors import SignatureInvalid
from placet.ports.channel import WebhookRequest

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the name of a header


def verify_request(request: WebhookRequest, secret: str) -> None:
    """Raise SignatureInvalid unless the request carries the webhook's secret."""
    given = request.headers.get(SECRET_HEADER, "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()):
        raise SignatureInvalid("The request does not carry the webhook's secret.")
