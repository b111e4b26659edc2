"""HTTP in its rawest form: read a body within bounds, send a reply, turn an error into its flat body."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.exceptions import HTTPException

from placet.desk import minting
from placet.errors import (
    BadRequest,
    BodyTooLarge,
    CaseNotFound,
    InvalidJson,
    InvalidToken,
    MethodNotAllowed,
    PlacetError,
    RateLimited,
    Unavailable,
    ValidationFailed,
)
from placet.protocol.shape import complaint

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
NO_STORE: Header = (b"cache-control", b"no-store")
NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
RETRY_WHEN_BUSY = b"2"

NOTHING_HERE = "There is nothing at this address."

log = logging.getLogger("placet.server")


class Disconnected(Exception):
    """The caller went away before the request was whole."""


class NotWhole(Exception):
    """The reply has to be told in pieces: only ASGI can do that."""


class Whole:
    """A body that is already there, to be received once."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __call__(self) -> Message:
        """All of it."""
        return {"type": "http.request", "body": self.body, "more_body": False}


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """The request's body; raises BodyTooLarge beyond the limit, before reading it all."""
    if isinstance(receive, Whole) and len(receive.body) <= limit:
        return receive.body
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise BodyTooLarge(f"The body is larger than {limit} bytes.")
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body") and len(body) <= limit:
        return body
    chunks = [body]
    size = len(body)
    while message["type"] == "http.request" and message.get("more_body") and size <= limit:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
    if message["type"] == "http.disconnect":
        raise Disconnected
    if size > limit:
        raise BodyTooLarge(f"The body is larger than {limit} bytes.")
    return b"".join(chunks)


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of this lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def text_header(scope: Scope, name: bytes) -> str | None:
    """The first header of this lower-case name as text."""
    value = header(scope, name)
    return None if value is None else value.decode("latin-1")


def bearer_token(scope: Scope) -> str | None:
    """The Bearer token of the request; raises InvalidToken for any other kind of credential."""
    value = text_header(scope, b"authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InvalidToken("Send the credential as `Authorization: Bearer …`.")
    return token.strip()


class Reply(NamedTuple):
    """A whole response, ready to send."""

    status: int
    headers: list[Header]
    body: bytes


def json_reply(status: int, body: bytes, *extra: Header) -> Reply:
    """JSON that nobody may store."""
    return Reply(status, [JSON, NO_STORE, (b"content-length", b"%d" % len(body)), *extra], body)


def error_reply(error: Exception) -> Reply:
    """An error as its flat body; what we did not foresee is logged and says nothing of itself."""
    status, body, extra = describe_error(error)
    return json_reply(status, body, *extra)


async def send_reply(send: Send, reply: Reply) -> None:
    """Send one whole response."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})


def describe_error(error: Exception) -> tuple[int, bytes, list[Header]]:
    """Status, body and headers of an error."""
    if isinstance(error, HTTPException):
        error = _plain(error)
    if not isinstance(error, PlacetError) or error.status == 500:
        reference = minting.short_id()
        log.error("unexpected error", exc_info=error, extra={"reference": reference})
        body = {"error": "internal", "message": "Something went wrong on our side.", "reference": reference}
        return 500, msgspec.json.encode(body), []
    extra: list[Header] = []
    if isinstance(error, Unavailable):
        extra.append((b"retry-after", RETRY_WHEN_BUSY))
    elif isinstance(error, RateLimited):
        extra.append((b"retry-after", b"%d" % error.details.get("retry_after", 1)))
    elif isinstance(error, InvalidToken):
        extra.append((b"www-authenticate", b"Bearer"))
    elif isinstance(error, MethodNotAllowed):  # RFC 9110, 15.5.6: a 405 says what is allowed
        extra.append((b"allow", error.details.get("allow", "").encode("latin-1")))
    return error.status, msgspec.json.encode(error.body()), extra


def _plain(error: HTTPException) -> PlacetError:
    """What the router found, as one of our own errors."""
    if error.status_code != 405:
        return CaseNotFound(NOTHING_HERE)
    return MethodNotAllowed(allow=(error.headers or {}).get("Allow", ""))


T = TypeVar("T")


def decode(
    decoder: msgspec.json.Decoder[T], body: bytes, *, misfit: type[BadRequest] = ValidationFailed
) -> T:
    """The message in a body; raises InvalidJson, or `misfit` with what to fix when its shape is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        reason, path = complaint(error, decoder.type)
        place = path.lstrip(".")
        raise misfit(f"{place}: {reason}." if place else f"{reason}.") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from error
