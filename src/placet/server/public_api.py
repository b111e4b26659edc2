"""What anyone may read: discovery, signing keys, the API description, health and metrics."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from placet.errors import Unavailable
from placet.http.decoding import decode_query
from placet.http.response_compression import compress_response
from placet.http.route import HttpApi, RouteGroup, RouteReply, pages
from placet.http.routing import build_json_response
from placet.pages.renderer import PageRenderer
from placet.protocol.discovery import ServiceCard, build_discovery
from placet.protocol.service_paths import DISCOVERY, DOCS, JWKS, OPENAPI
from placet.protocol.versions import DEFAULT_VERSION, SPEC_VERSIONS, check_version
from placet.server.metrics import CONTENT_TYPE, Meter
from placet.server.page_replies import PageReplies

CACHE_FOR_S = 300

public = RouteGroup(
    tag="Server",
    description="What this server can do, and its health.",
    credential="none",
    handling="response",
)


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The health of the server."""

    status: Literal["ok", "ready"]
    concerns: Annotated[
        tuple[str, ...], Meta(description="What an operator should look at; left out if there is nothing.")
    ] = ()


class KeySet(Struct, frozen=True, kw_only=True):
    """Public keys as a JSON Web Key Set; empty when this server does not sign."""

    keys: tuple[dict[str, Any], ...]


class Discovery(Struct, frozen=True, kw_only=True):
    """What this service can do, with the fields of the requested version."""

    hitl_protocol: dict[str, Any]


class DiscoveryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version of the discovery document to return."""

    version: Annotated[
        str,
        Meta(
            description="The protocol version of the document. Default: the newest.",
            extra_json_schema={"enum": list(SPEC_VERSIONS)},
        ),
    ] = DEFAULT_VERSION


class PublicApi(HttpApi):
    """Handles the routes about the server itself."""

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

    @public.get(
        DISCOVERY,
        "discover",
        query=DiscoveryQuery,
        reply=RouteReply(description="The document.", model=Discovery),
    )
    async def discover(self, request: Request) -> Response:
        """Get the discovery document.

        The HITL Protocol's discovery document.
        """
        version = check_version(decode_query(request.query_params, DiscoveryQuery).version)
        return build_json_response(build_discovery(self._card, version), cache_for=CACHE_FOR_S)

    @public.get(
        JWKS,
        "readSigningKeys",
        reply=RouteReply(description="The keys.", model=KeySet),
    )
    async def read_signing_keys(self, request: Request) -> Response:
        """Get the keys that verify signed results.

        A result's `signature` can be verified offline with these. Caches may not store them: they would keep
        a revoked key.
        """
        return build_json_response(await self._jwks())

    @public.get(
        OPENAPI,
        "readDescription",
        reply=RouteReply(description="An OpenAPI 3.1 document.", model=dict[str, Any]),
    )
    async def read_description(self, request: Request) -> Response:
        """Get this API description.

        The OpenAPI document of this server.
        """
        return build_json_response(self._openapi(), cache_for=CACHE_FOR_S)

    @pages.get(DOCS, "showApiDocs")
    async def show_api_docs(self, request: Request) -> Response:
        """Show the API description as a page."""
        html = self._renderer.render_docs(self._openapi(), static_url=self._replies.static_url)
        page = self._replies.page(html)  # it contains no secrets
        return await compress_response(page, request.headers.get("accept-encoding"))

    @public.get(
        "/healthz", "checkHealth", reply=RouteReply(description="The server is running.", model=Health)
    )
    async def check_health(self, request: Request) -> Response:
        """Check that the process is alive.

        For a supervisor that restarts the process.
        """
        return build_json_response({"status": "ok"})

    @public.get(
        "/readyz",
        "checkReadiness",
        reply=RouteReply(description="The server can store cases.", model=Health),
        errors=(Unavailable,),
    )
    async def check_readiness(self, request: Request) -> Response:
        """Check that the server can read and write, and that its detectors are loaded.

        For a load balancer.
        """
        await self._check_ready()
        concerns = self._concerns()
        return build_json_response({"status": "ready", **({"concerns": concerns} if concerns else {})})

    @public.get(
        "/metrics",
        "readMetrics",
        reply=RouteReply(description="The numbers.", model=str, media=CONTENT_TYPE),
    )
    async def read_metrics(self, request: Request) -> Response:
        """Get metrics for Prometheus.

        Events, requests and open streams.
        """
        return Response(self._meter.text(), headers={"content-type": CONTENT_TYPE})
