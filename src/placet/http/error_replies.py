"""Errors as HTTP replies: the flat JSON body, the status, and the headers that belong to it."""

import logging
import secrets

import msgspec

from placet.errors import (
    InvalidToken,
    MethodNotAllowed,
    PlacetError,
    RateLimited,
    Unavailable,
    UnsupportedEncoding,
)
from placet.http.asgi import Header, RawReply, build_json_reply

RETRY_WHEN_BUSY = b"2"
NOTHING_HERE = "There is nothing at this address."

log = logging.getLogger("placet.server")


def build_error_reply(error: Exception) -> RawReply:
    """Return an error as a complete reply; an unexpected error is logged and its text is not sent."""
    status, body, extra = describe_error(error)
    return build_json_reply(status, body, *extra)


def describe_error(error: Exception) -> tuple[int, bytes, list[Header]]:
    """Return the status, body and headers of an error."""
    if not isinstance(error, PlacetError) or error.status == 500:
        reference = secrets.token_hex(6)
        log.error("unexpected_error", exc_info=error, extra={"reference": reference})
        body = {"error": "internal", "message": "Something went wrong on our side.", "reference": reference}
        return 500, msgspec.json.encode(body), []
    extra: list[Header] = []
    if isinstance(error, Unavailable):
        extra.append((b"retry-after", RETRY_WHEN_BUSY))
    elif isinstance(error, RateLimited):
        extra.append((b"retry-after", b"%d" % error.details.get("retry_after", 1)))
    elif isinstance(error, InvalidToken):
        extra.append((b"www-authenticate", b"Bearer"))
    elif isinstance(error, UnsupportedEncoding):  # RFC 9110, 12.5.3: a 415 lists the accepted encodings
        extra.append((b"accept-encoding", b"gzip"))
    elif isinstance(error, MethodNotAllowed):  # RFC 9110, 15.5.6: a 405 lists the allowed methods
        extra.append((b"allow", error.details.get("allow", "").encode("latin-1")))
    return error.status, msgspec.json.encode(error.body()), extra
