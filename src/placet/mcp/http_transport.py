"""Serve MCP over streamable HTTP, protected by a token and a check of the Host header."""

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
MIN_TOKEN_LENGTH = 20
MAX_BODY_BYTES = 1024 * 1024
SHUTDOWN_TIMEOUT_S = 2


def build_http_app(
    server: MCPServer[Any] | Server[Any], *, host: str, names: Iterable[str], token: str | None
) -> ASGIApp:
    """Return the server as an ASGI app; raise SettingsError if anybody could connect.

    `names` are the accepted Host headers besides loopback ones; checking them stops DNS rebinding.
    """
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        raise SettingsError(f"{TOKEN_VARIABLE} must have at least {MIN_TOKEN_LENGTH} characters.")
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"Serving on {host} requires a token: set {TOKEN_VARIABLE} and give it to the clients."
        )
    local = ("127.0.0.1", "localhost", "[::1]")
    security = TransportSecuritySettings(
        allowed_hosts=[*(f"{name}:*" for name in local), *_host_patterns(names)],
        allowed_origins=[*(f"http://{name}:*" for name in local), *(f"https://{name}" for name in names)],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
    )
    return app if token is None else _TokenMiddleware(app, token)


async def serve_http(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; call `ready` once the server accepts connections."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
    )
    await _Server(config, ready).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Calls `ready` at startup, and returns on a signal instead of raising it again."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        previous = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _host_patterns(names: Iterable[str]) -> list[str]:
    return [form for name in names for form in (name, f"{name}:*")]


class _TokenMiddleware:
    """Answers 401 to requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._has_token(scope):
            refusal = PlainTextResponse(
                "This server requires a bearer token.",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(values) == 1 and hmac.compare_digest(values[0], self._expected)
