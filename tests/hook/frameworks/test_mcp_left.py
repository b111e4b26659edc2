"""Clients that leave while their call waits or runs, over HTTP, and come back for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from assent.mcp.doors import PATH, http_app
from tests.hook.frameworks.mcp_harness import run
from tests.hook.frameworks.mcp_shop import ANN, Board, Shop
from tests.mcp.assistant import until
from tests.waiting import PATIENCE_S

VERSION = "2025-11-25"
ACCEPTS = {"Accept": "application/json, text/event-stream"}


class Caller:
    """A client of the handshake's days, without a library: each request has a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: dict[str, str] = {}

    async def shake_hands(self) -> None:
        me = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "ann", "version": "1"}}
        async with self._asking("initialize", me) as answer:
            named = answer.headers["mcp-session-id"]
            self._session = {"Mcp-Session-Id": named, "Mcp-Protocol-Version": VERSION}
            await answer.aread()
        async with self._asking("notifications/initialized", {}, number=None):
            pass

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """What comes back, as it travels."""
        async with self._asking("tools/call", {"name": name, "arguments": arguments}) as answer:
            return (await answer.aread()).decode()

    @asynccontextmanager
    async def _asking(
        self, method: str, params: dict[str, Any], number: int | None = 1
    ) -> AsyncIterator[httpx.Response]:
        asked = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}
        headers = {**ACCEPTS, **self._session}
        async with (
            httpx.AsyncClient(timeout=PATIENCE_S) as http,
            http.stream("POST", self._url, json=asked, headers=headers) as answer,
        ):
            yield answer


class HttpShop(Shop):
    """A shop whose gate is served over HTTP."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Caller]:
        async with self.open():
            app = http_app(await self.proxy.server(), host="127.0.0.1", names=(), token=None)
            self.http = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
            serving = asyncio.create_task(self.http.serve())
            await until(lambda: self.http.started)
            [listener] = self.http.servers[0].sockets
            caller = Caller(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}")
            await caller.shake_hands()
            yield caller
            self.http.should_exit = True
            await serving

    async def left_by(self, call: "asyncio.Task[str]") -> None:
        """The connection is gone, and the gate's side knows."""
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: not self.http.server_state.connections)


def test_a_call_whose_client_left_while_it_waited_runs_for_nobody_and_once_for_who_comes_back() -> None:
    async def main() -> None:
        async with shop.served() as caller:
            call = asyncio.create_task(caller.call("pay", ANN))
            await until(lambda: board.asked)
            await shop.left_by(call)
            await until(lambda: not shop.proxy._inside)
            board.approve()
            assert "paid Ann 1" in await caller.call("pay", ANN)
        assert shop.did == ["Ann 1"]

    board = Board()
    shop = HttpShop(reviews=board, wait_for=600)
    run(main())


def test_the_outcome_of_a_call_whose_client_left_while_it_ran_is_there_when_it_comes_back() -> None:
    async def main() -> None:
        async with shop.served() as caller:
            call = asyncio.create_task(caller.call("ring", {}))
            await until(lambda: board.asked)
            board.approve()
            await until(lambda: shop.did)
            await shop.left_by(call)
            answered.set()
            await until(lambda: not shop.proxy._inside)
            assert "hello" in await caller.call("ring", {})
        assert shop.did == ["rang"]

    board, answered = Board(), asyncio.Event()
    shop = HttpShop(reviews=board, wait_for=600)

    @shop.behind.tool()
    async def ring() -> str:
        shop.did.append("rang")
        await answered.wait()
        return "hello"

    run(main())
