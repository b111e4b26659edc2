"""CORS: let scripts of listed web origins call the API from a browser.

Only the API, discovery, the signing keys and the API description take part. Review pages and the inbox use
cookies and never do. Credentials are not allowed: a script sends its key in a header, and no cookie.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.http.asgi import (
    AsgiMessage,
    Header,
    RawReply,
    Receive,
    Scope,
    Send,
    get_route_path,
    read_header,
    send_reply,
)
from placet.protocol.service_paths import API, OPENAPI, WELL_KNOWN
from placet.server.app import PlacetApp
from placet.server.streams import EventStreams

if TYPE_CHECKING:
    from placet.server.tracing import TracedApp

ANY = "*"
SHARED_PATHS = (f"{API}/", f"{WELL_KNOWN}/", OPENAPI)
EXPOSED: Header = (
    b"access-control-expose-headers",
    b"ETag, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining",
)
PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, Last-Event-ID",
    ),
    (b"access-control-max-age", b"600"),
    (b"content-length", b"0"),
)


class CrossOriginApp:
    """Wraps an app so that browsers let scripts of these origins read the replies of its API."""

    def __init__(self, app: "PlacetApp | TracedApp", origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)
        self._allows_any = ANY in origins

    @property
    def streams(self) -> EventStreams:
        """The app's event streams."""
        return self._app.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; answer a preflight request of a listed origin."""
        if scope["type"] != "http" or not get_route_path(scope).startswith(SHARED_PATHS):
            await self._app(scope, receive, send)
            return
        headers = self._list_headers(read_header(scope, b"origin"))
        if len(headers) > 1 and _is_preflight(scope):
            await send_reply(send, RawReply(204, [*headers, *PREFLIGHT], b""))
            return

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _list_headers(self, origin: bytes | None) -> list[Header]:
        """Return the headers for a request from this origin; for one that is not listed, only `Vary`."""
        if self._allows_any:
            return [(b"access-control-allow-origin", ANY.encode()), EXPOSED]
        varies = (b"vary", b"Origin")
        if origin is None or origin not in self._origins:
            return [varies]
        return [varies, (b"access-control-allow-origin", origin), EXPOSED]


def _is_preflight(scope: Scope) -> bool:
    return (
        scope["method"] == "OPTIONS"
        and read_header(scope, b"origin") is not None
        and read_header(scope, b"access-control-request-method") is not None
    )
