"""Thousands of event streams at once: what an idle one weighs, and how soon all hear of one event."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from bench.drafts import ANSWER, DRAFT
from bench.process import Server

AT_ONCE = 100  # connections that are being opened at the same time
WITHIN_S = 60.0
GREETING = b"retry: 2000\n\n"


class FanOut(Struct, frozen=True, kw_only=True):
    """Milliseconds from sending an answer until the streams of its case had the event."""

    p50_ms: float
    p99_ms: float


class Listener:
    """One open stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def wait_for_text(self, text: bytes) -> float:
        """When this text had arrived."""
        await asyncio.wait_for(self._reader.readuntil(text), WITHIN_S)
        return time.monotonic()

    async def leave(self) -> None:
        """Go away without a word, as callers do."""
        self._writer.close()
        await self._writer.wait_closed()


class Audience:
    """Opens streams on one server as the owner of the cases."""

    def __init__(self, server: Server, key: str) -> None:
        self._server = server
        self._key = key
        self._address = urlsplit(server.url)

    async def listen(self, case_ids: Sequence[str]) -> list[Listener]:
        """A stream for each id, all of them greeted."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(case_id: str) -> Listener:
            async with gate:
                return await self._open(case_id)

        return await asyncio.gather(*map(one, case_ids))

    async def touch(self, case_ids: Sequence[str]) -> None:
        """Open and close a stream on each, one after the other: their pages are then in the cache."""
        for case_id in case_ids:
            await (await self._open(case_id)).leave()

    async def _open(self, case_id: str) -> Listener:
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port, limit=4096)
        writer.write(
            f"GET /v1/reviews/{case_id}/events HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Accept: text/event-stream\r\nAuthorization: Bearer {self._key}\r\n\r\n".encode()
        )
        listener = Listener(reader, writer)
        await listener.wait_for_text(GREETING)
        return listener


async def weigh(server: Server, key: str, case_ids: Sequence[str], streams: int) -> float:
    """KiB of the server's memory for each idle stream, spread over these cases."""
    audience = Audience(server, key)
    case_ids = case_ids[:streams]
    await audience.touch(case_ids)
    before = server.usage().rss_kib
    listeners = await audience.listen([case_ids[number % len(case_ids)] for number in range(streams)])
    grown = server.usage().rss_kib - before
    await _disperse(listeners)
    return grown / streams


async def spread(server: Server, key: str, listeners: int) -> FanOut:
    """Answer a case that many listen to."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(timeout=WITHIN_S) as client:
        opened = (await client.post(f"{server.url}/v1/cases", json=DRAFT, headers=headers)).json()["hitl"]
        crowd = await Audience(server, key).listen([opened["case_id"]] * listeners)
        began = time.monotonic()
        hearing = asyncio.gather(*(one.wait_for_text(b"event: review.completed") for one in crowd))
        token = {"Authorization": f"Bearer {opened['submit_token']}"}
        (await client.post(opened["submit_url"], json=ANSWER, headers=token)).raise_for_status()
        took = sorted((moment - began) * 1000 for moment in await hearing)
    await _disperse(crowd)
    return FanOut(p50_ms=statistics.median(took), p99_ms=took[int(len(took) * 0.99)])


async def _disperse(listeners: Sequence[Listener]) -> None:
    await asyncio.gather(*(one.leave() for one in listeners), return_exceptions=True)
