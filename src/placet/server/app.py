"""The ASGI application: raw routes without a router, the rest through Starlette; mounts into any ASGI app."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from placet.errors import MethodNotAllowed
from placet.http.asgi import (
    AsgiMessage,
    ClientDisconnected,
    RawReply,
    Receive,
    Scope,
    Send,
    StreamedReplyNeeded,
    get_route_path,
    send_reply,
)
from placet.http.error_replies import build_error_reply
from placet.http.raw_table import RawHandler, RawTable
from placet.http.route import Route, get_first_step
from placet.http.routing import error_from_router
from placet.server.metrics import Meter
from placet.server.streams import EventStreams

FoundHandler = tuple[RawHandler, str, str]
"""A handler, its argument, and the name under which the request is counted."""

DISCONNECTED = 499  # in metrics only: no client receives it
access = logging.getLogger("placet.access")


class PlacetApp:
    """Everything Placet serves, as one ASGI application."""

    def __init__(
        self,
        *,
        routes: Iterable[Route],
        router: ASGIApp,
        streams: EventStreams,
        meter: Meter,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        log_requests: bool = False,
        mounted: Mapping[str, ASGIApp] | None = None,
        before_routing: Callable[[str, Scope], Awaitable[None]] | None = None,
        later_paths: Iterable[str] = (),
        build_error_page: Callable[[Scope, Exception], RawReply | None] = lambda scope, error: None,
    ) -> None:
        """`router` serves what is not raw; `mounted` are applications by the beginning of their paths.

        `before_routing` is called with path and scope of each request that is not raw, before it is served.
        `later_paths` are the paths of routes that may be added to the router. `build_error_page` returns an
        error as a page for a browser, or None for a program.
        """
        routes = tuple(routes)
        raw = RawTable(routes)
        # The names under which requests are counted; unknown paths must not create new ones.
        paths = (*(route.path for route in routes), *later_paths)
        self._first_steps = {get_first_step(path) for path in paths} - {""}
        self._prefix = raw.prefix
        self._prefix_length = len(raw.prefix)
        self._verbs = raw.verbs
        self._fixed = raw.fixed
        self._stream_handlers = raw.streams
        self._router = router
        self._mounted = {} if mounted is None else mounted
        self._before_routing = before_routing
        self._build_error_page = build_error_page
        self._meter = meter
        self._log_requests = log_requests
        self._start = start
        self._stop = stop
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._serve_lifespan(scope, receive, send)
            return
        handler, argument, name = self._find(scope["method"], get_route_path(scope))
        if handler is None:
            await self._serve_asgi(scope, receive, send)
            return
        reply = await self.reply((handler, argument, name), scope, receive)
        if reply is not None:
            await send_reply(send, reply)

    def find_raw(self, scope: Scope) -> FoundHandler | None:
        """Return the handler that answers this request with one complete reply, or None."""
        path = get_route_path(scope)
        handler, argument, name = self._find(scope["method"], path)
        if handler is None and hasattr(self._find_mounted(path), "reply"):
            handler = self._get_reply_of_mounted
        return (handler, argument, name) if handler is not None else None

    async def reply(self, found: FoundHandler, scope: Scope, receive: Receive) -> RawReply | None:
        """Return the complete reply, also for an error; None if the client disconnected.

        Raises StreamedReplyNeeded for a reply that has to be sent in pieces.
        """
        began = time.perf_counter()
        handler, argument, name = found
        reply: RawReply | None = None
        try:
            reply = await handler(scope, receive, argument)
        except StreamedReplyNeeded:
            raise
        except ClientDisconnected:
            pass
        except Exception as error:
            reply = build_error_reply(error)
        self._record(scope, name, DISCONNECTED if reply is None else reply.status, began)
        return reply

    async def _serve_asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what sends its own reply: event streams, the relay, and everything behind the router."""
        began = time.perf_counter()
        path = get_route_path(scope)
        _, argument, name = self._find(scope["method"], path)
        status = 0

        async def send_noting_status(message: AsgiMessage) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            stream = self._stream_handlers.get(name)
            if stream is not None:
                await stream(scope, receive, send_noting_status, argument)
            else:
                await self._serve_other(path, scope, receive, send_noting_status)
        except ClientDisconnected:
            status = DISCONNECTED
        except Exception as error:
            if status:  # the reply has begun: it can only be broken off
                raise
            known = error_from_router(error) if isinstance(error, HTTPException) else error
            reply = self._build_error_page(scope, known) or build_error_reply(known)
            await send_reply(send_noting_status, reply)
        self._record(scope, name, status, began)

    async def _serve_other(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._before_routing is not None:
            await self._before_routing(path, scope)
        app = self._find_mounted(path)
        if app is not None:
            await app(scope, receive, send)
        else:
            await self._router({**scope, "app": self}, receive, send)

    def _find_mounted(self, path: str) -> ASGIApp | None:
        for beginning, app in self._mounted.items():
            if path.startswith(beginning):
                return app
        return None

    async def _get_reply_of_mounted(self, scope: Scope, receive: Receive, path: str) -> RawReply:
        """Return the complete reply of a mounted application; raise StreamedReplyNeeded if it has none."""
        app: Any = self._find_mounted(path)
        found: RawReply | None = await app.reply(scope, receive)
        if found is None:
            raise StreamedReplyNeeded
        return found

    def find_route_name(self, method: str, path: str) -> str:
        """Return the name under which requests to this path are counted; it holds no ids or tokens."""
        return self._find(method, path)[2]

    def _find(self, method: str, path: str) -> tuple[RawHandler | None, str, str]:
        """Return the handler, its argument and the route's name; None for what sends its own reply."""
        if path.startswith(self._prefix):
            value, _, verb = path[self._prefix_length :].partition("/")
            methods = self._verbs.get(verb)
            if methods is None or not value:
                return None, path, self._prefix
            return methods.get(method, self._refuse_method), value, verb
        methods = self._fixed.get(path)
        if methods is not None:
            return methods.get(method, self._refuse_method), path, path
        first = get_first_step(path)
        return None, path, f"/{first}" if first in self._first_steps else "other"

    def _record(self, scope: Scope, name: str, status: int, began: float) -> None:
        took = time.perf_counter() - began
        self._meter.record_request(name, status, took)
        if self._log_requests:
            access.info(
                "%s %s %d",
                scope["method"],
                scope["path"],  # never the query: it may carry a review token
                status,
                extra={"route": name, "status": status, "ms": round(took * 1000, 2)},
            )

    async def _refuse_method(self, scope: Scope, receive: Receive, _: str) -> RawReply:
        path = get_route_path(scope)
        methods = self._fixed.get(path) or self._verbs[path.rpartition("/")[2]]
        raise MethodNotAllowed(allow=", ".join(methods))

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":  # websockets are not supported
            await send({"type": "websocket.close", "code": 1000})
            return
        await receive()
        await self._start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._stop()
        await send({"type": "lifespan.shutdown.complete"})
