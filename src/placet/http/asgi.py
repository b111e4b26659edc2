"""Raw ASGI: read a request's body and headers within bounds, and send a complete reply."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from placet.errors import BodyTooLarge, InvalidToken
from placet.http.compression import decode_body

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
NO_STORE: Header = (b"cache-control", b"no-store")
NOSNIFF: Header = (b"x-content-type-options", b"nosniff")


class ClientDisconnected(Exception):
    """The client disconnected before the request was complete."""


class StreamedReplyNeeded(Exception):
    """The reply must be sent in pieces, which only ASGI can do."""


class BufferedBody:
    """An ASGI `receive` whose whole body has already arrived."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __call__(self) -> AsgiMessage:
        """Return the whole body as one message."""
        return {"type": "http.request", "body": self.body, "more_body": False}


class RawReply(NamedTuple):
    """A complete response, ready to send."""

    status: int
    headers: list[Header]
    body: bytes


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """Return the request's body, decompressed; raise BodyTooLarge as soon as it exceeds the limit."""
    body = await _read_sent_body(scope, receive, limit)
    coding = read_header(scope, b"content-encoding")
    return body if coding is None else decode_body(body, coding, limit=limit)


async def _read_sent_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    if isinstance(receive, BufferedBody) and len(receive.body) <= limit:
        return receive.body
    declared = read_header(scope, b"content-length")
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
        raise ClientDisconnected
    if size > limit:
        raise BodyTooLarge(f"The body is larger than {limit} bytes.")
    return b"".join(chunks)


def get_route_path(scope: Scope) -> str:
    """Return the path below the point where this app is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def read_header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of this lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def read_text_header(scope: Scope, name: bytes) -> str | None:
    """Return the first header of this lower-case name as text."""
    value = read_header(scope, name)
    return None if value is None else value.decode("latin-1")


def read_bearer_token(scope: Scope) -> str | None:
    """Return the request's Bearer token; raise InvalidToken for any other kind of credential."""
    value = read_text_header(scope, b"authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InvalidToken("Send the credential as `Authorization: Bearer …`.")
    return token.strip()


def build_json_reply(status: int, body: bytes, *extra: Header) -> RawReply:
    """Return a JSON reply that must not be stored."""
    return RawReply(status, [JSON, NO_STORE, (b"content-length", b"%d" % len(body)), *extra], body)


async def send_reply(send: Send, reply: RawReply) -> None:
    """Send a complete response."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})
