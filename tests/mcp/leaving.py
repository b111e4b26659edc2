"""A client of the handshake's days over HTTP, without a library: it may leave in the middle of a call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from placet.mcp.http_transport import MCP_ROUTE, build_http_app
from tests.mcp.assistant import wait_until
from tests.waiting import PATIENCE_S

VERSION = "2025-11-25"
ACCEPTS = {"Accept": "application/json, text/event-stream"}


class Caller:
    """Each of its requests has a connection of its own."""

    def __init__(self, http: uvicorn.Server) -> None:
        [listener] = http.servers[0].sockets
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}{MCP_ROUTE.path}"
        self._http = http
        self._session: dict[str, str] = {}

    async def shake_hands(self) -> None:
        me = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "ann", "version": "1"}}
        async with self._open_request("initialize", me) as answer:
            named = answer.headers["mcp-session-id"]
            self._session = {"Mcp-Session-Id": named, "Mcp-Protocol-Version": VERSION}
            await answer.aread()
        async with self._open_request("notifications/initialized", {}, number=None):
            pass

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """What comes back, as it travels."""
        async with self._open_request("tools/call", {"name": name, "arguments": arguments}) as answer:
            return (await answer.aread()).decode()

    async def leave(self, call: "asyncio.Task[str]") -> None:
        """Go; when this is over, the other side knows."""
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await wait_until(lambda: not self._http.server_state.connections)

    @asynccontextmanager
    async def _open_request(
        self, method: str, params: dict[str, Any], number: int | None = 1
    ) -> AsyncIterator[httpx.Response]:
        asked = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}
        headers = {**ACCEPTS, **self._session}
        async with (
            httpx.AsyncClient(timeout=PATIENCE_S) as http,
            http.stream("POST", self._url, json=asked, headers=headers) as answer,
        ):
            yield answer


@asynccontextmanager
async def connect_caller(server: "MCPServer[Any] | Server[Any]") -> AsyncIterator[Caller]:
    """A caller of this server, which runs on the same loop."""
    app = build_http_app(server, host="127.0.0.1", names=(), token=None)
    http = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    serving = asyncio.create_task(http.serve())
    await wait_until(lambda: http.started)
    caller = Caller(http)
    await caller.shake_hands()
    yield caller
    http.should_exit = True
    await serving
