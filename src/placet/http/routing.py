"""Routes of the table as Starlette routes: authenticate, authorize, read the request, call, reply."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from placet.errors import CaseNotFound, InvalidToken, MethodNotAllowed, PlacetError, ValidationFailed
from placet.http.asgi import Scope, read_body, read_text_header
from placet.http.error_replies import NOTHING_HERE
from placet.http.response_compression import compress_response
from placet.http.route import ApiRequest, ApiStream, Route, build_path_sort_key, check_declared_access
from placet.ports.identity import Principal

MAX_QUERY_CHARACTERS = 8192
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

Authenticate = Callable[[Scope], Awaitable[Principal]]
Authorize = Callable[[Route, ApiRequest], Awaitable[ApiRequest]]
"""Returns the request, with more about its sender if need be; raises InvalidToken or NotPermitted."""


class RouteServer:
    """Serves the operations and responses of a route table."""

    def __init__(self, *, authenticate: Authenticate, authorize: Authorize, max_body_bytes: int) -> None:
        self._authenticate = authenticate
        self._authorize = authorize
        self._max_body_bytes = max_body_bytes

    def build_starlette_routes(self, routes: Iterable[Route]) -> list[StarletteRoute]:
        """Return one Starlette route for each path, those with fixed steps first.

        Raises SettingsError for a route that takes an API key and declares no scope.
        """
        routes = tuple(routes)
        check_declared_access(routes)
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            if route.handling in ("operation", "response"):
                by_path.setdefault(route.path, {})[route.method] = route
        return [
            self._build_starlette_route(path, by_path[path])
            for path in sorted(by_path, key=build_path_sort_key)
        ]

    def _build_starlette_route(self, path: str, methods: dict[str, Route]) -> StarletteRoute:
        async def serve(request: Request) -> Response:
            route = methods["GET" if request.method == "HEAD" else request.method]
            if route.handling == "response":
                response: Response = await route.handler(request)
            else:
                response = await self._serve_operation(route, request)
            if route.tag is None:  # pages: see the module on compression
                return response
            return await compress_response(response, request.headers.get("accept-encoding"))

        return StarletteRoute(path, serve, methods=list(methods))

    async def _serve_operation(self, route: Route, request: Request) -> Response:
        principal = await self._authenticate(request.scope)
        if principal.name is None and not principal.scopes:
            raise InvalidToken("Send an API key as `Authorization: Bearer …`.")
        call = ApiRequest(
            principal=principal,
            path=request.path_params,
            query=_read_query(request.query_params, route.repeatable),
            if_match=read_text_header(request.scope, b"if-match"),
        )
        call = await self._authorize(route, call)
        body = await read_body(request.scope, request.receive, limit=self._max_body_bytes)
        return await _respond(route, await route.handler(replace(call, body=body)))


def error_from_router(error: HTTPException) -> PlacetError:
    """Return what Starlette's router raises as one of our errors."""
    if error.status_code != 405:
        return CaseNotFound(NOTHING_HERE)
    return MethodNotAllowed(allow=(error.headers or {}).get("Allow", ""))


def build_json_response(body: Any, *, status: int = 200, cache_for: int = 0) -> Response:
    """Return JSON that may be cached for this many seconds, or not at all."""
    caching = f"public, max-age={cache_for}" if cache_for else "no-store"
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={**NO_STORE, "cache-control": caching},
    )


async def _respond(route: Route, reply: Any) -> Response:
    if reply is None:
        return Response(status_code=204, headers=NO_STORE)
    if isinstance(reply, ApiStream):
        return await _stream(route.status, reply)
    return build_json_response(reply, status=route.status)


async def _stream(status: int, reply: ApiStream) -> Response:
    first = await anext(reply.pieces, b"")  # an error here is still an error reply
    headers = {**NO_STORE, "content-type": reply.media}
    if reply.filename is not None:
        headers["content-disposition"] = f'attachment; filename="{reply.filename}"'
    return StreamingResponse(_continue_from(first, reply.pieces), status_code=status, headers=headers)


async def _continue_from(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        if isinstance(rest, AsyncGenerator):  # also when the client disconnects early
            await rest.aclose()


def _read_query(given: QueryParams, repeatable: Sequence[str]) -> dict[str, str]:
    """Return the query by name; raise ValidationFailed for a name that occurs twice.

    Of two values, the one that is checked might not be the one that is used. Values of repeatable names are
    joined with commas.
    """
    pairs = given.multi_items()
    if sum(len(name) + len(value) for name, value in pairs) > MAX_QUERY_CHARACTERS:
        raise ValidationFailed(f"The query is larger than {MAX_QUERY_CHARACTERS} characters.")
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found and name not in repeatable:
            raise ValidationFailed("The query contains a parameter more than once.")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found
