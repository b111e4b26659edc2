"""The ASGI application: hot routes in raw ASGI, the rest through Starlette; mounts into any ASGI app."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.types import ASGIApp

from placet.desk.review_desk import ReviewDesk
from placet.errors import InvalidToken, MethodNotAllowed
from placet.ports.identity import Principal
from placet.server.case_api import CaseApi, require_caller
from placet.server.metrics import Meter
from placet.server.polling import StatusPoll, require_reading
from placet.server.streams import EventStreams
from placet.server.wire import (
    Disconnected,
    Message,
    NotWhole,
    Receive,
    Reply,
    Scope,
    Send,
    error_reply,
    json_reply,
    read_body,
    send_reply,
)

Authenticate = Callable[[Scope], Awaitable[Principal]]
Handler = Callable[[Scope, Receive, str], Awaitable[Reply]]
Found = tuple[Handler, str, str]

REVIEWS = "/v1/reviews/"
CASES = "/v1/cases"
EVENTS = "events"
COME_BACK = (b"retry-after", b"2")
LEFT = 499  # the caller went away; nobody sees this but the metrics
# What requests are counted by; a path that nobody serves must not become a name of its own.
TOPS = frozenset(
    {
        ".well-known",
        "api",
        "audit",
        "docs",
        "healthz",
        "inbox",
        "metrics",
        "openapi.json",
        "readyz",
        "relay",
        "review",
        "static",
    }
    | {"v1"}
)
access = logging.getLogger("placet.access")
_encode = msgspec.json.Encoder().encode


class PlacetApp:
    """Everything Placet serves, as one ASGI application."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        authenticate: Authenticate,
        cases: CaseApi,
        poll: StatusPoll,
        streams: EventStreams,
        meter: Meter,
        rest: ASGIApp,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        log_requests: bool = False,
        beside: Mapping[str, ASGIApp] | None = None,
        awaken: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._desk = desk
        self._authenticate = authenticate
        self._cases = cases
        self._poll = poll
        self._meter = meter
        self._rest = rest
        # By the beginning of its paths: what writes its own replies beside the server's own.
        self._beside = {} if beside is None else beside
        self._awaken = awaken
        self._log_requests = log_requests
        self._start = start
        self._stop = stop
        self.streams = streams
        self._routes: dict[tuple[str, str], Handler | None] = {
            ("GET", "status"): self._status,
            ("HEAD", "status"): self._status,
            ("GET", EVENTS): None,
            ("HEAD", EVENTS): None,
            ("POST", "respond"): self._respond,
            ("POST", "submit"): self._respond,
            ("POST", "cancel"): self._cancel,
        }
        self._verbs = frozenset(verb for _, verb in self._routes)

    @property
    def hot_routes(self) -> list[tuple[str, str]]:
        """Method and path of what is served here in raw ASGI; the rest has a router of its own."""
        reviews = [(method, f"{REVIEWS}{{case_id}}/{verb}") for method, verb in self._routes]
        return [("POST", CASES), *reviews]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        handler, argument, route = self._find(scope["method"], route_path(scope))
        if handler is None:
            await self._pass(scope, receive, send)
            return
        reply = await self.reply((handler, argument, route), scope, receive)
        if reply is not None:
            await send_reply(send, reply)

    def find_whole(self, scope: Scope) -> Found | None:
        """Who answers this request with one whole reply, about what, under which name; None: nobody does."""
        path = route_path(scope)
        handler, argument, route = self._find(scope["method"], path)
        if handler is None and hasattr(self._app_beside(path), "reply"):
            handler = self._reply_beside
        return (handler, argument, route) if handler is not None else None

    async def reply(self, found: Found, scope: Scope, receive: Receive) -> Reply | None:
        """The whole reply: whatever is refused or fails becomes its flat error; None if the caller left.

        Raises NotWhole for what turns out to be told in pieces.
        """
        began = time.perf_counter()
        handler, argument, route = found
        reply: Reply | None = None
        try:
            reply = await handler(scope, receive, argument)
        except NotWhole:
            raise
        except Disconnected:
            pass
        except Exception as error:
            reply = error_reply(error)
        self._saw(scope, route, LEFT if reply is None else reply.status, began)
        return reply

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What writes its own reply: the event streams, the relay, and everything behind the router."""
        began = time.perf_counter()
        path = route_path(scope)
        _, argument, route = self._find(scope["method"], path)
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if route == EVENTS:
                await self._events(scope, receive, noting, argument)
            else:
                await self._other(path, scope, receive, noting)
        except Disconnected:
            status = LEFT
        except Exception as error:
            if status:  # the reply has begun: all that is left is to break it off
                raise
            await send_reply(noting, error_reply(error))
        self._saw(scope, route, status, began)

    async def _other(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._awaken is not None:
            await self._awaken(path)
        app = self._app_beside(path)
        if app is not None:
            await app(scope, receive, send)
        else:
            await self._rest({**scope, "app": self}, receive, send)

    def _app_beside(self, path: str) -> ASGIApp | None:
        for beginning, app in self._beside.items():
            if path.startswith(beginning):
                return app
        return None

    async def _reply_beside(self, scope: Scope, receive: Receive, path: str) -> Reply:
        """What an app beside replies in one piece, if it can."""
        replying: Any = self._app_beside(path)
        found = await replying.reply(scope, receive)
        if found is None:
            raise NotWhole
        return Reply(*found)

    def route(self, method: str, path: str) -> str:
        """The name under which requests to this path are counted: no ids, no tokens."""
        return self._find(method, path)[2]

    def _find(self, method: str, path: str) -> tuple[Handler | None, str, str]:
        """Who answers, about what, and under which name it is counted; None writes its own reply."""
        if path == CASES:
            return (self._open if method == "POST" else self._refuse), path, CASES
        if not path.startswith(REVIEWS):
            top = path[1:].partition("/")[0]
            return None, path, f"/{top}" if top in TOPS else "other"
        case_id, _, verb = path[len(REVIEWS) :].partition("/")
        if verb not in self._verbs or not case_id:
            return None, path, REVIEWS
        return self._routes.get((method, verb), self._refuse), case_id, verb

    def _saw(self, scope: Scope, route: str, status: int, began: float) -> None:
        took = time.perf_counter() - began
        self._meter.saw_request(route, status, took)
        if self._log_requests:
            access.info(
                "%s %s %d",
                scope["method"],
                scope["path"],  # never the query: it may carry a review token
                status,
                extra={"route": route, "status": status, "ms": round(took * 1000, 2)},
            )

    async def _open(self, scope: Scope, receive: Receive, _: str) -> Reply:
        principal = await self._authenticate(scope)
        require_caller(principal, "cases:write")
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        return json_reply(202, await self._cases.open(scope, body, principal), COME_BACK)

    async def _status(self, scope: Scope, receive: Receive, case_id: str) -> Reply:
        return await self._poll(scope, case_id, await self._authenticate(scope))

    async def _respond(self, scope: Scope, receive: Receive, case_id: str) -> Reply:
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        return json_reply(200, _encode(await self._cases.submit(scope, body, case_id)))

    async def _cancel(self, scope: Scope, receive: Receive, case_id: str) -> Reply:
        principal = await self._authenticate(scope)
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        return json_reply(200, _encode(await self._cases.cancel(body, case_id, principal)))

    async def _refuse(self, scope: Scope, receive: Receive, _: str) -> Reply:
        verb = route_path(scope).rpartition("/")[2]
        methods = [method for method, name in self._routes if name == verb] or ["POST"]
        raise MethodNotAllowed(allow=", ".join(methods))

    async def _events(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        principal = await self._authenticate(scope)
        check = partial(self._check_same, scope, principal.name)
        await self.streams.serve(
            scope, receive, send, await self._poll.current(case_id, principal), check=check
        )

    async def _check_same(self, scope: Scope, name: str | None) -> None:
        """Raises unless the request is still that of this principal, who may still read."""
        principal = await self._authenticate(scope)
        require_reading(principal)
        if principal.name != name:
            raise InvalidToken("This credential is another's now.")

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":  # a websocket: nothing here speaks it
            await send({"type": "websocket.close", "code": 1000})
            return
        await receive()
        await self._start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._stop()
        await send({"type": "lifespan.shutdown.complete"})


def route_path(scope: Scope) -> str:
    """The path below the point where this app is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path
