"""The way in over streamable HTTP: who may come in, and how it is served."""

import hmac
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.errors import SettingsError

PATH = "/mcp"
TOKEN_VARIABLE = "PLACET_MCP_TOKEN"  # noqa: S105 - a name, not a secret
SHORTEST_TOKEN = 20
LARGEST_BODY = 1024 * 1024
STOP_WITHIN_S = 2


def http_app(
    server: MCPServer[Any] | Server[Any], *, host: str, names: Iterable[str], token: str | None
) -> ASGIApp:
    """The server as an ASGI app; raises SettingsError where anybody could come in.

    `names` are the Host headers it answers to besides loopback ones: a page in a browser cannot pretend.
    """
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise SettingsError(f"{TOKEN_VARIABLE} must have at least {SHORTEST_TOKEN} characters.")
    if token is None and not is_loopback(host):
        raise SettingsError(f"Serving on {host} needs a secret that clients present: set {TOKEN_VARIABLE}.")
    local = ("127.0.0.1", "localhost", "[::1]")
    security = TransportSecuritySettings(
        allowed_hosts=[*(f"{name}:*" for name in local), *_hosts(names)],
        allowed_origins=[*(f"http://{name}:*" for name in local), *(f"https://{name}" for name in names)],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, host=host, max_request_body_size=LARGEST_BODY
    )
    return app if token is None else _Guard(app, token)


async def serve_http(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once it listens."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    await _Server(config, ready).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it listens, and returns when it is told to end, so that everything is closed in order."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _hosts(names: Iterable[str]) -> list[str]:
    return [form for name in names for form in (name, f"{name}:*")]


class _Guard:
    """Lets in who presents the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._presented(scope):
            refusal = PlainTextResponse(
                "This server needs its token.", status_code=401, headers={"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _presented(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)
