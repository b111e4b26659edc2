"""A service that receives callbacks: a real HTTP server in a thread of its own, answering by script."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from aiohttp import web

from tests.waiting import PATIENCE_S, eventually


class Received:
    """One request as it arrived."""

    def __init__(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class CallbackReceiver:
    """Remembers what it was sent; each path answers with its scripted statuses, then 204."""

    def __init__(self) -> None:
        self.url = ""
        self.script: dict[str, list[int]] = {}
        self._requests: list[Received] = []

    def at(self, path: str) -> list[Received]:
        """What came to this path so far."""
        return [one for one in self._requests if one.path == path]

    def wait(self, path: str, count: int = 1) -> list[Received]:
        """What came to this path, once it is this many."""
        return eventually(lambda: found if len(found := self.at(path)) >= count else None)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self._requests.append(Received(request.path, request.headers.copy(), body))
        statuses = self.script.get(request.path, [])
        status = statuses.pop(0) if statuses else 204
        headers = {"Location": "/landed"} if status == 302 else {}
        return web.Response(status=status, text="the receiver's own secrets", headers=headers)


@contextmanager
def receiving() -> Iterator[CallbackReceiver]:
    """A receiver on a free port of the loopback address."""
    receiver, begun, over = CallbackReceiver(), threading.Event(), threading.Event()

    async def serve() -> None:
        runner = web.ServerRunner(web.Server(receiver.answer), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        begun.set()
        await asyncio.to_thread(over.wait)
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="receiver")
    thread.start()
    try:
        assert begun.wait(PATIENCE_S)
        yield receiver
    finally:
        over.set()
        thread.join(PATIENCE_S)
