"""The ASGI application: hot routes in raw ASGI, the rest through Starlette; mounts into any ASGI app."""

import logging
import time
from collections.abc import Awaitable, Callable

import msgspec
from starlette.types import ASGIApp

from assent.desk.review_desk import ReviewDesk
from assent.errors import MethodNotAllowed
from assent.ports.identity import Principal
from assent.server.case_api import CaseApi, require_caller
from assent.server.metrics import Meter
from assent.server.polling import StatusPoll
from assent.server.streams import EventStreams
from assent.server.wire import (
    Disconnected,
    Message,
    Receive,
    Scope,
    Send,
    read_body,
    reply_error,
    reply_json,
)

Authenticate = Callable[[Scope], Awaitable[Principal]]
Handler = Callable[[Scope, Receive, Send, str], Awaitable[None]]

REVIEWS = "/v1/reviews/"
CASES = "/v1/cases"
# What requests are counted by; a path that nobody serves must not become a name of its own.
TOPS = frozenset(
    {".well-known", "api", "docs", "healthz", "metrics", "openapi.json", "readyz", "review", "static", "v1"}
)
access = logging.getLogger("assent.access")


class AssentApp:
    """Everything Assent serves, as one ASGI application."""

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
    ) -> None:
        self._desk = desk
        self._authenticate = authenticate
        self._cases = cases
        self._poll = poll
        self._meter = meter
        self._rest = rest
        self._log_requests = log_requests
        self._start = start
        self._stop = stop
        self.streams = streams
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "status"): self._status,
            ("HEAD", "status"): self._status,
            ("GET", "events"): self._events,
            ("HEAD", "events"): self._events,
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
        path = route_path(scope)
        handler, argument, route = self._find(scope["method"], path)
        if handler is None:
            await self._measured(scope, receive, send, route, self._serve_rest, path)
        else:
            await self._measured(scope, receive, send, route, handler, argument)

    def route(self, method: str, path: str) -> str:
        """The name under which requests to this path are counted: no ids, no tokens."""
        return self._find(method, path)[2]

    def _find(self, method: str, path: str) -> tuple[Handler | None, str, str]:
        if path == CASES:
            return (self._open if method == "POST" else self._refuse), path, CASES
        if not path.startswith(REVIEWS):
            top = path[1:].partition("/")[0]
            return None, path, f"/{top}" if top in TOPS else "other"
        case_id, _, verb = path[len(REVIEWS) :].partition("/")
        if verb not in self._verbs or not case_id:
            return None, path, REVIEWS
        return self._routes.get((method, verb), self._refuse), case_id, verb

    async def _measured(
        self, scope: Scope, receive: Receive, send: Send, route: str, handler: Handler, argument: str
    ) -> None:
        began = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await handler(scope, receive, noting, argument)
        except Disconnected:
            status = 499
        except Exception as error:
            if status:  # the reply has begun: all that is left is to break it off
                raise
            await reply_error(noting, error)
        finally:
            took = time.perf_counter() - began
            self._meter.saw_request(route, status, took)
            if self._log_requests:
                self._log(scope, route, status, took)

    def _log(self, scope: Scope, route: str, status: int, took: float) -> None:
        access.info(
            "%s %s %d",
            scope["method"],
            scope["path"],  # never the query: it may carry a review token
            status,
            extra={"route": route, "status": status, "ms": round(took * 1000, 2)},
        )

    async def _open(self, scope: Scope, receive: Receive, send: Send, _: str) -> None:
        principal = await self._authenticate(scope)
        require_caller(principal, "cases:write")
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        answer = await self._cases.open(scope, body, principal)
        await reply_json(send, 202, answer, (b"retry-after", b"30"))

    async def _status(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        await self._poll(scope, send, case_id, await self._authenticate(scope))

    async def _events(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        case = await self._poll.current(case_id, await self._authenticate(scope))
        await self.streams.serve(scope, receive, send, case)

    async def _respond(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        receipt = await self._cases.submit(scope, body, case_id)
        await reply_json(send, 200, msgspec.json.encode(receipt))

    async def _cancel(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        principal = await self._authenticate(scope)
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        answer = await self._cases.cancel(body, case_id, principal)
        await reply_json(send, 200, msgspec.json.encode(answer))

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, _: str) -> None:
        verb = route_path(scope).rpartition("/")[2]
        methods = [method for method, name in self._routes if name == verb] or ["POST"]
        raise MethodNotAllowed(allow=", ".join(methods))

    async def _serve_rest(self, scope: Scope, receive: Receive, send: Send, _: str) -> None:
        await self._rest({**scope, "app": self}, receive, send)

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
