"""Serve MCP over streamable HTTP, protected by a token and a check of the Host header."""

import hmac
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.errors import SettingsError
from placet.http.listening import ListeningServer, Ready
from placet.http.route import Route

MCP_ROUTE = Route(
    method="POST",
    path="/mcp",
    name="sendMcpMessage",
    summary="Send a message of MCP",
    credential="none",  # no API key: the application behind it checks its own token
    handling="mounted",
)
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
        allowed_hosts=[*(f"{name}:*" for name in local), *_list_host_patterns(names)],
        allowed_origins=[*(f"http://{name}:*" for name in local), *(f"https://{name}" for name in names)],
    )
    app = server.streamable_http_app(
        streamable_http_path=MCP_ROUTE.path,
        transport_security=security,
        host=host,
        max_request_body_size=MAX_BODY_BYTES,
    )
    return app if token is None else _TokenMiddleware(app, token)


async def serve_http(app: ASGIApp, listener: socket.socket, ready: Ready) -> None:
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
    await ListeningServer(config, ready).serve(sockets=[listener])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _list_host_patterns(names: Iterable[str]) -> list[str]:
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
