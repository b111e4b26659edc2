"""What anyone may read: discovery, keys, the API's description, health and numbers."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.pages.renderer import PageRenderer
from placet.protocol.discovery import ServiceCard, discovery
from placet.protocol.versions import DEFAULT_VERSION, check_version
from placet.server.metrics import CONTENT_TYPE, Meter
from placet.server.page_replies import PageReplies


class PublicDocuments:
    """Documents about the server itself."""

    def __init__(
        self,
        *,
        check_ready: Callable[[], Awaitable[None]],
        card: ServiceCard,
        meter: Meter,
        jwks: Callable[[], Awaitable[dict[str, Any]]],
        openapi: Callable[[], dict[str, Any]],
        renderer: PageRenderer,
        replies: PageReplies,
        concerns: Callable[[], list[str]] = list,
    ) -> None:
        self._check_ready = check_ready
        self._concerns = concerns
        self._card = card
        self._meter = meter
        self._jwks = jwks
        self._openapi = openapi
        self._renderer = renderer
        self._replies = replies

    @property
    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/.well-known/hitl.json", self.discovery),
            Route("/.well-known/jwks.json", self.jwks),
            Route("/openapi.json", self.openapi),
            Route("/docs", self.docs),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
        ]

    async def discovery(self, request: Request) -> Response:
        """What this service can do, in the shape of ?version= or the newest."""
        version = check_version(request.query_params.get("version", DEFAULT_VERSION))
        return json_response(discovery(self._card, version), cache_for=300)

    async def jwks(self, request: Request) -> Response:
        """The keys that verify signed results."""
        return json_response(await self._jwks(), cache_for=300)

    async def openapi(self, request: Request) -> Response:
        """The API's description."""
        return json_response(self._openapi(), cache_for=300)

    async def docs(self, request: Request) -> Response:
        """The API's description for people."""
        html = self._renderer.docs(self._openapi(), static_url=self._replies.static_url)
        return self._replies.page(html)

    async def healthz(self, request: Request) -> Response:
        """The process is alive."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """The store can read and write; 503 otherwise. What else an operator should see is in `concerns`."""
        await self._check_ready()
        concerns = self._concerns()
        return json_response({"status": "ready", **({"concerns": concerns} if concerns else {})})

    async def metrics(self, request: Request) -> Response:
        """Prometheus metrics."""
        return Response(self._meter.text(), headers={"content-type": CONTENT_TYPE})


def json_response(body: Any, *, status: int = 200, cache_for: int = 0) -> Response:
    """JSON, cacheable for so many seconds or not at all."""
    caching = f"public, max-age={cache_for}" if cache_for else "no-store"
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": caching, "x-content-type-options": "nosniff"},
    )
