"""Presses over Socket Mode: acknowledged at once, through lost connections, and without a public address."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from placet.channels.slack import SlackChannel
from placet.errors import ChannelRefused, SettingsError
from placet.ports.channel import Channel, Interaction
from tests.channels.loopback import Answer
from tests.channels.slack.socket_server import Connection, SocketServer, socket_server
from tests.channels.slack.workspace import APP_TOKEN, PLACE, TOKEN, SlackHarness, refusal

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


@pytest.fixture
async def sockets(harness: SlackHarness) -> AsyncIterator[SocketServer]:
    async with socket_server() as server:
        harness.workspace.socket_url = server.url
        yield server


class Listener:
    """Someone who takes presses one at a time."""

    def __init__(self, channel: Channel) -> None:
        self._presses = channel.listen()
        self.task = asyncio.create_task(self._next())

    async def _next(self) -> Sequence[Interaction]:
        return await anext(aiter(self._presses))

    async def next(self) -> Sequence[Interaction]:
        async with asyncio.timeout(PATIENCE_S):
            presses = await self.task
        self.task = asyncio.create_task(self._next())
        return presses

    async def aclose(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        async with aclosing(self._presses):  # type: ignore[type-var]
            pass


@asynccontextmanager
async def listen_in_background(channel: Channel) -> AsyncIterator[Listener]:
    listener = Listener(channel)
    try:
        yield listener
    finally:
        await listener.aclose()


async def accept_connection(sockets: SocketServer) -> Connection:
    async with asyncio.timeout(PATIENCE_S):
        connection = await sockets.connections.get()
    await connection.hello()
    return connection


async def next_acknowledgement(connection: Connection) -> str:
    async with asyncio.timeout(PATIENCE_S):
        return await connection.acknowledged.get()


async def test_a_press_comes_over_the_socket_and_is_acknowledged(
    harness: SlackHarness, sockets: SocketServer
):
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.deliver("e1", harness.workspace.interaction("1.1", "ref-1"))
        (press,) = await listener.next()
        assert await next_acknowledgement(connection) == "e1"
    assert press.reference == "ref-1"
    assert press.user.user_id == "T01:U7"
    assert press.via == "slack_block_action"


async def test_a_press_is_acknowledged_while_an_earlier_one_is_still_dealt_with(
    harness: SlackHarness, sockets: SocketServer
):
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        for number in range(3):
            await connection.deliver(f"e{number}", harness.workspace.interaction("1.1", f"ref-{number}"))
        assert [await next_acknowledgement(connection) for _ in range(3)] == ["e0", "e1", "e2"]
        heard = [(await listener.next())[0].reference for _ in range(3)]
    assert heard == ["ref-0", "ref-1", "ref-2"]


async def test_a_repeated_interaction_has_the_same_id(harness: SlackHarness, sockets: SocketServer):
    interaction = harness.workspace.interaction("1.1", "ref-1")
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.deliver("e1", interaction)
        first = await listener.next()
        await connection.deliver("e1-again", interaction)
        assert await listener.next() == first


async def test_other_envelopes_are_only_acknowledged(harness: SlackHarness, sockets: SocketServer):
    link = {"type": "button", "action_id": "placet.link", "action_ts": "1.2"}
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.socket.send_str("no JSON")
        await connection.send_message({"type": "something_new"})
        await connection.deliver("e1", {"command": "/placet"}, type="slash_commands")
        await connection.deliver("e2", harness.workspace.interaction("1.1", "x", actions=[link]))
        await connection.deliver("e3", {"type": "block_actions", "user": 7})
        await connection.deliver("e4", harness.workspace.interaction("1.1", "ref-1"))
        assert [await next_acknowledgement(connection) for _ in range(4)] == ["e1", "e2", "e3", "e4"]
        (press,) = await listener.next()
    assert press.reference == "ref-1"


async def test_pings_are_answered(harness: SlackHarness, sockets: SocketServer):
    async with listen_in_background(harness.channel):
        connection = await accept_connection(sockets)
        await connection.socket.ping(b"Ping from applink-1")
        async with asyncio.timeout(PATIENCE_S):
            assert await connection.pongs.get() == b"Ping from applink-1"


@pytest.mark.parametrize("ending", ["refresh", "close", "cut", "bytes"])
async def test_a_connection_that_ends_is_followed_by_the_next(
    harness: SlackHarness, sockets: SocketServer, ending: str, recorded_waits: list[float]
):
    async with listen_in_background(harness.channel) as listener:
        first = await accept_connection(sockets)
        await first.deliver("e1", harness.workspace.interaction("1.1", "ref-1"))
        assert await next_acknowledgement(first) == "e1"
        if ending == "refresh":
            await first.send_message({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}})
        elif ending == "close":
            await first.socket.close()
        elif ending == "bytes":
            await first.socket.send_bytes(b"\x00")
        else:
            assert first.socket._req is not None
            assert first.socket._req.transport is not None
            first.socket._req.transport.abort()
        second = await accept_connection(sockets)
        await second.deliver("e2", harness.workspace.interaction("1.1", "ref-2"))
        heard = [(await listener.next())[0].reference for _ in range(2)]
    assert heard == ["ref-1", "ref-2"]
    assert (first.ticket, second.ticket) == ("t1", "t2")
    assert recorded_waits == []


async def test_a_silent_connection_is_given_up(harness: SlackHarness, sockets: SocketServer):
    channel = SlackChannel(
        token=TOKEN,
        conversation_id=PLACE,
        app_token=APP_TOKEN,
        api_url=f"{harness.server.url}/api",
        idle_timeout_s=0.05,
    )
    async with listen_in_background(channel):
        first, second = await accept_connection(sockets), await accept_connection(sockets)
    await channel.aclose()
    assert first.ticket != second.ticket


async def test_listening_goes_on_after_a_day_without_slack(
    harness: SlackHarness, sockets: SocketServer, recorded_waits: list[float]
):
    harness.server.planned += [Answer(status=503, json={})] * 1100
    async with listen_in_background(harness.channel):
        await harness.server.wait_until(lambda: not harness.server.planned, within=60)
        await accept_connection(sockets)
    assert (len(recorded_waits), recorded_waits[-1]) == (1100, 60)


async def test_listening_goes_on_through_failures_with_growing_breaks(
    harness: SlackHarness, sockets: SocketServer, recorded_waits: list[float]
):
    nowhere = Answer(json={"ok": True, "url": "ws://127.0.0.1:9/link"})
    unsafe = Answer(json={"ok": True, "url": "ws://elsewhere.example/link"})
    broken = Answer(json={"ok": True, "url": "wss://[/link"})
    harness.server.planned += [
        Answer(status=500, json={}),
        refusal("internal_error"),
        nowhere,
        unsafe,
        broken,
    ]
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.deliver("e1", harness.workspace.interaction("1.1", "ref-1"))
        assert (await listener.next())[0].reference == "ref-1"
    assert recorded_waits == [1, 2, 4, 8, 16]


async def test_closing_the_listener_closes_the_socket(harness: SlackHarness, sockets: SocketServer):
    presses = harness.channel.listen()
    first = asyncio.ensure_future(anext(presses))
    connection = await accept_connection(sockets)
    await connection.deliver("e1", harness.workspace.interaction("1.1", "ref-1"))
    await asyncio.wait_for(first, PATIENCE_S)
    async with aclosing(presses):  # type: ignore[type-var]
        pass
    await asyncio.wait_for(connection.closed.wait(), PATIENCE_S)


async def test_socket_mode_that_is_switched_off_says_so(harness: SlackHarness, sockets: SocketServer):
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.send_message({"type": "disconnect", "reason": "link_disabled"})
        with pytest.raises(SettingsError, match="disabled"):
            await listener.next()


async def test_a_wrong_token_ends_the_listening(harness: SlackHarness):
    harness.server.planned.append(refusal("invalid_auth"))
    async with listen_in_background(harness.channel) as listener:
        with pytest.raises(ChannelRefused, match="does not accept this token"):
            await listener.next()


async def test_listening_without_an_app_token_says_what_to_set(harness: SlackHarness):
    channel = SlackChannel(token=TOKEN, conversation_id=PLACE, api_url=harness.server.url)
    with pytest.raises(SettingsError, match="PLACET_SLACK_APP_TOKEN"):
        await anext(aiter(channel.listen()))
    await channel.aclose()


async def test_the_address_of_a_socket_is_not_logged(
    harness: SlackHarness, sockets: SocketServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    refused = Answer(json={"ok": True, "url": "ws://127.0.0.1:9/link?ticket=s3cret"})
    harness.server.planned.append(refused)
    async with listen_in_background(harness.channel) as listener:
        connection = await accept_connection(sockets)
        await connection.deliver("e1", harness.workspace.interaction("1.1", "ref-1"))
        await listener.next()
    assert "s3cret" not in caplog.text
    assert "ticket=" not in caplog.text
