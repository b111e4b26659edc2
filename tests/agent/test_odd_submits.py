"""Services that are slow or do not deduplicate submits: the person gets a correct reply."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet.agent import ChannelBridge, PendingCases
from placet.agent.flow import Notice
from placet.agent.pending_case_store import PendingCase
from placet.agent.service_responses import FollowedCase
from placet.channels.interaction_handler import MAYBE_NOT_RECORDED, REPLIES
from placet.errors import SettingsError
from placet.testing.channel import RecordingChannel
from tests.agent.test_flow import CASE
from tests.cli.strange_service import Call, Reply, strange_service
from tests.raw_server import serve_connections

pytestmark = pytest.mark.anyio
PATIENCE_S = 60


@asynccontextmanager
async def serve_endless_response(start: bytes, drop: bytes) -> AsyncIterator[str]:
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

    async with serve_connections(answer) as port:
        yield f"http://127.0.0.1:{port}/submit"


def case_at(url: str) -> FollowedCase:
    return replace(
        CASE,
        service_url=url,
        submit_url=url,
        submit_token="t" * 43,
        inline_actions=("confirm",),
        expires_at=CASE.expires_at + timedelta(days=1),
    )


@asynccontextmanager
async def open_bridge(
    url: str, folder: Path, **options: Any
) -> AsyncIterator[tuple[ChannelBridge, RecordingChannel]]:
    """A person was asked, and may press."""
    channel, cases = RecordingChannel(), PendingCases(folder / "agent.db")
    cases.add(PendingCase(case=case_at(url)))
    board = ChannelBridge(channel, cases, **{"answerers": ["7", "8"], **options})
    await board.tell(Notice(name="requested", case=case_at(url)))
    yield board, channel
    async with asyncio.timeout(PATIENCE_S):
        await board.aclose()


async def press_and_get_note(url: str, folder: Path, *, submit_within_s: float) -> str:
    """What a person who presses is told."""
    async with open_bridge(url, folder, submit_within_s=submit_within_s) as (board, channel):
        async with asyncio.timeout(PATIENCE_S):
            await board.handle_interaction(channel.press("confirm"))
    return channel.answers[0][1]


async def test_response_with_an_endless_body_counts_by_its_status(tmp_path: Path) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serve_endless_response(start, b"1\r\n \r\n") as url:
        assert await press_and_get_note(url, tmp_path, submit_within_s=PATIENCE_S) == REPLIES[200]


async def test_response_with_endless_headers_is_not_waited_for(tmp_path: Path) -> None:
    async with serve_endless_response(b"HTTP/1.1 200 OK\r\n", b"X-More: to come\r\n") as url:
        note = await press_and_get_note(url, tmp_path, submit_within_s=0.3)
        assert note == MAYBE_NOT_RECORDED
        # Another service may ignore the Idempotency-Key, so nobody is told that a second press is harmless.
        assert note.endswith("Open the link to see whether it was.")


@pytest.mark.parametrize("at_once", [True, False])
async def test_person_who_presses_twice_is_not_told_that_someone_else_answered(
    tmp_path: Path, at_once: bool
) -> None:
    """Not every service knows an answer that comes again."""
    with strange_service() as service:

        def submit(call: Call) -> Reply:
            return Reply(status=200 if len(service.calls) == 1 else 409)

        service.replies["/submit"] = submit
        async with open_bridge(f"{service.url}/submit", tmp_path) as (board, channel):
            taps = [channel.press("confirm"), channel.press("confirm")]
            if at_once:
                await asyncio.gather(*map(board.handle_interaction, taps))
            else:
                for tap in taps:
                    await board.handle_interaction(tap)
            await board.handle_interaction(channel.press("confirm", user_id="8"))
    assert [text for _, text in channel.answers] == [REPLIES[200], REPLIES[200], REPLIES[409]]
    assert len(service.calls) == 2


async def test_failed_submit_is_repeated_by_the_next_press(tmp_path: Path) -> None:
    with strange_service() as service:
        service.replies["/submit"] = lambda call: Reply(status=200 if len(service.calls) > 2 else 503)
        async with open_bridge(f"{service.url}/submit", tmp_path) as (board, channel):
            for _ in range(3):
                await board.handle_interaction(channel.press("confirm"))
    assert [text for _, text in channel.answers] == [MAYBE_NOT_RECORDED, MAYBE_NOT_RECORDED, REPLIES[200]]


async def test_single_string_of_answerers_is_refused(tmp_path: Path) -> None:
    """Each of its signs would be an id, and Telegram's first people have such short ones."""
    with pytest.raises(SettingsError, match="list of user ids"):
        ChannelBridge(RecordingChannel(), PendingCases(tmp_path / "agent.db"), answerers="4711")


@pytest.mark.parametrize(("typed", "labels"), [("4711, 7 ", ["Confirm"]), ("", []), (" , ", [])])
async def test_spaces_around_answerers_are_ignored(tmp_path: Path, typed: str, labels: list[str]) -> None:
    with strange_service() as service:
        service.replies["/submit"] = Reply()
        url = f"{service.url}/submit"
        async with open_bridge(url, tmp_path, answerers=typed.split(",")) as (board, channel):
            buttons = channel.sent[0].card.buttons
            assert [button.label for button in buttons] == labels
            for _ in buttons:
                await board.handle_interaction(channel.press("confirm"))
    assert [text for _, text in channel.answers] == [REPLIES[200]] * len(labels)


async def test_a_press_that_another_program_hears_sends_the_person_to_the_link(tmp_path: Path) -> None:
    """Telegram and Slack send each press to any one of the processes that listen."""
    other = tmp_path / "other"
    async with open_bridge("https://ci.example/submit", tmp_path) as (_, channel):
        press = channel.press("confirm")
    async with open_bridge("https://ci.example/submit", other) as (board, elsewhere):
        await board.handle_interaction(press)
    ((_, text),) = elsewhere.answers
    assert text == "This question is closed. If its link says otherwise, answer there."
