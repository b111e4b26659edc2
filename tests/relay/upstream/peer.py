"""An agent that is no more than a connection, and the relay's client before it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from yarl import URL

from placet.deliveries.guarded_resolver import GuardedResolver
from placet.relay.upstream.agent_client import AgentHttpClient
from placet.relay.upstream.connection import UpstreamResponse
from tests.raw_server import serve_connections

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """An agent that says what a test tells it, whatever it is asked."""

    def __init__(self, *answers: bytes, hang_up: bool = False) -> None:
        self.answers = list(answers)
        self.hang_up = hang_up
        self.connections = 0
        self.requests: list[bytes] = []
        self.left = asyncio.Event()
        self.url = URL()
        self.say: Callable[[bytes], None] = lambda said: None
        """Says something more on the connection that came last."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.say = writer.write
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next(
                    (line for line in head.split(b"\r\n") if line.startswith(b"content-length")), b":0"
                )
                body = await reader.readexactly(int(size.partition(b":")[2]))
                self.requests.append(head + body)
                writer.write(self.answers.pop(0) if self.answers else OK)
                await writer.drain()
                if self.hang_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.left.set()
            writer.close()


async def resolve_agent_host(host: str) -> list[str]:
    return ["127.0.0.1"] if host == "agent.example" else []


@asynccontextmanager
async def open_client(peer: Peer) -> AsyncIterator[AgentHttpClient]:
    client = AgentHttpClient(GuardedResolver(resolve_agent_host, allow_loopback=True))
    async with serve_connections(peer) as port:
        peer.url = URL(f"http://127.0.0.1:{port}/a2a?x=%20y", encoded=True)
        try:
            async with asyncio.timeout(60):
                yield client
        finally:
            await client.aclose()


@asynccontextmanager
async def open_request_function(peer: Peer) -> AsyncIterator[Callable[..., Awaitable[UpstreamResponse]]]:
    async with open_client(peer) as client:

        async def ask(
            method: str = "POST", body: bytes = b"{}", url: URL | None = None, **headers: str
        ) -> UpstreamResponse:
            return await client.request(method, url or peer.url, headers, body)

        yield ask


async def read_whole_body(response: UpstreamResponse) -> bytes:
    found = b""
    while piece := await response.read_some():
        found += piece
    return found


class EndedExchanges:
    """Counts exchanges that have ended."""

    count = 0

    def __call__(self) -> None:
        self.count += 1
