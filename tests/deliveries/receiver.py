"""A real HTTP receiver on the loopback address, and the scripted names that lead to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from placet.deliveries.guarded_http import GuardedHttp
from tests.raw_server import serve_connections


class Receiver:
    """An HTTP server that remembers what it was sent and answers as each path says."""

    def __init__(self, *, scheme: str) -> None:
        self.scheme = scheme
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.port = 0
        self.release = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/redirect": self._redirect,
            "/huge": self._huge,
            "/slow": self._slow,
            "/silent": self._silent,
            "/bomb": self._bomb,
            "/later": self._later,
        }
        return await answers.get(request.path, self._status)(request)

    async def _status(self, request: web.Request) -> web.StreamResponse:
        status = int(request.query.get("status", "200"))
        return web.json_response({"secret": "of the receiver"}, status=status, headers={"Set-Cookie": "a=b"})

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/landed"})

    async def _huge(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except OSError:
            self.release.set()
        return response

    async def _slow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await self.release.wait()
        return response

    async def _silent(self, request: web.Request) -> web.StreamResponse:
        await self.release.wait()
        return web.Response()

    async def _bomb(self, request: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"0" * 1_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async def _later(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=503, headers={"Retry-After": "120"})


class ScriptedLookup:
    """Answers each name from its script, one entry per question, and remembers the questions."""

    def __init__(self, **script: list[list[str]]) -> None:
        self._script = {name.replace("_", "."): list(answers) for name, answers in script.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if not self._script.get(host):
            raise OSError("no such name")
        return self._script[host].pop(0)


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(scheme="http" if tls is None else "https")
    runner = web.ServerRunner(web.Server(receiver.answer), shutdown_timeout=0.1)  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        receiver.release.set()
        await runner.cleanup()


@asynccontextmanager
async def saying(reply: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers anything with these bytes and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with serve_connections(answer) as port:
        yield f"http://127.0.0.1:{port}/"


@asynccontextmanager
async def guarded(**options) -> AsyncIterator[GuardedHttp]:
    client = GuardedHttp(**options)
    try:
        yield client
    finally:
        await client.aclose()
