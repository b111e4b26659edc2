"""An agent made of bytes: it serves cards like any other, and answers calls with whatever a test gives it."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from placet.http.listening import bind
from tests.raw_server import serve_connections

PATIENCE_S = 60.0
Behaviour = Callable[["RawAgent", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawAgent:
    """One agent; `behave` writes the bytes of its answer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.card: Any = {
            "name": "Raw",
            "supportedInterfaces": [
                {"url": url, "protocolBinding": binding, "protocolVersion": version}
                for binding in ("JSONRPC", "HTTP+JSON")
                for version in ("1.0", "0.3")
            ],
        }
        self.cards: dict[str, Any] = {}
        """Other cards, by their path."""
        self.behave: Behaviour = answer_with(200, b"{}")
        self.requests: list[tuple[str, bytes]] = []
        self.hung_up = threading.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            path = head.split(" ")[1]
            if path.startswith("/.well-known/"):
                card = self.cards.get(path, self.card)
                await answer_with(200, json.dumps(card).encode())(self, reader, writer)
            else:
                self.requests.append((head, body))
                await self.behave(self, reader, writer)
        writer.close()


def build_head(status: int, **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Fine", *lines, "connection: close", "", ""]).encode()


def answer_with(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Behaviour:
    """A whole answer."""

    async def behave(agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(build_head(status, content_type=kind, content_length=str(len(body)), **headers) + body)
        await writer.drain()

    return behave


def write_bytes(first: bytes, again: bytes = b"", times: int = 10**9) -> Behaviour:
    """Bytes, and then others again and again until the other side hangs up."""

    async def behave(agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(first)
            await writer.drain()
            for _ in range(times if again else 0):
                writer.write(again)
                await writer.drain()
        except ConnectionError:
            agent.hung_up.set()
            raise

    return behave


def stay_silent(first: bytes = b"") -> Behaviour:
    """A beginning, and then nothing until the other side hangs up."""

    async def behave(agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        agent.hung_up.set()

    return behave


@contextmanager
def run_raw_agent() -> Iterator[RawAgent]:
    listener = bind("127.0.0.1", 0)
    agent = RawAgent(f"http://127.0.0.1:{listener.getsockname()[1]}")
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        async with serve_connections(agent.serve, sock=listener):
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), name="raw agent")
    thread.start()
    try:
        yield agent
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        loop.close()
