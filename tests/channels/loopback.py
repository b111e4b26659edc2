"""A platform's API on the loopback address: a real HTTP server that remembers every request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from aiohttp import web


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else None


class Answer(NamedTuple):
    status: int = 200
    json: Any = None
    headers: Mapping[str, str] = {}
    body: bytes | None = None


HANG_UP = Answer(status=0)
Handle = Callable[[Request], Answer | Awaitable[Answer]]


class Loopback:
    """Answers with `planned` first, one each, then with what `handle` says."""

    def __init__(self, handle: Handle) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.planned: list[Answer] = []
        self._handle = handle
        self._news = asyncio.Condition()

    async def wait_until(self, holds: Callable[[], bool], *, within: float = 20) -> None:
        """Wait for requests until this holds; fails after so many seconds."""
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(holds)

    def at(self, ending: str) -> list[Request]:
        """The requests whose path ends so."""
        return [request for request in self.requests if request.path.endswith(ending)]

    async def answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        request = Request(raw.method, raw.path, raw.headers.copy(), await raw.read())
        self.requests.append(request)
        answer = self.planned.pop(0) if self.planned else self._handle(request)
        if not isinstance(answer, Answer):
            answer = await answer
        async with self._news:
            self._news.notify_all()
        if answer is HANG_UP:
            assert raw.transport is not None
            raw.transport.close()
        body = answer.body if answer.body is not None else msgspec.json.encode(answer.json)
        headers = {"Content-Type": "application/json", **answer.headers}
        return web.Response(status=answer.status or 500, body=body, headers=headers)


@asynccontextmanager
async def loopback(handle: Handle) -> AsyncIterator[Loopback]:
    """A server in the test's own event loop."""
    server = Loopback(handle)
    runner = web.ServerRunner(web.Server(server.answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
