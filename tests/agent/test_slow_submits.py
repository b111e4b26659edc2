"""Services that take a press and never finish their answer: the person hears what came of it all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from assent.agent import PendingCases, Switchboard
from assent.agent.flow import Notice
from assent.agent.pending import PendingCase
from assent.agent.switchboard import REPLIES, UNSURE
from assent.testing.channel import RecordingChannel
from tests.agent.test_flow import CASE

pytestmark = pytest.mark.anyio
PATIENCE_S = 20


@asynccontextmanager
async def dripping(start: bytes, drop: bytes) -> AsyncIterator[str]:
    """A service that answers with `start`, and then with a drop now and then for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        with suppress(ConnectionError, asyncio.CancelledError):
            while not writer.is_closing():
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/submit"
    finally:
        server.close()


async def told(url: str, folder: Path, *, submit_within_s: float) -> str:
    """What a person who presses is told."""
    case = replace(
        CASE,
        service_url=url,
        submit_url=url,
        submit_token="t" * 43,
        inline_actions=("confirm",),
        expires_at=CASE.expires_at + timedelta(days=1),
    )
    channel, cases = RecordingChannel(), PendingCases(folder / "agent.db")
    cases.add(PendingCase(case=case))
    board = Switchboard(channel, cases, answerers=["7"], submit_within_s=submit_within_s)
    await board.tell(Notice(name="told", case=case))
    channel.press("confirm")
    listening = asyncio.create_task(board.listen())
    await channel.until(lambda: len(channel.answers) == 1)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        await board.aclose()
    return channel.answers[0][1]


async def test_an_answer_whose_body_never_ends_is_taken_by_its_status(tmp_path: Path) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with dripping(start, b"1\r\n \r\n") as url:
        assert await told(url, tmp_path, submit_within_s=PATIENCE_S) == REPLIES[200]


async def test_an_answer_whose_headers_never_end_is_not_waited_for(tmp_path: Path) -> None:
    async with dripping(b"HTTP/1.1 200 OK\r\n", b"X-More: to come\r\n") as url:
        assert await told(url, tmp_path, submit_within_s=0.3) == UNSURE
