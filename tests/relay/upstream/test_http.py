"""HTTP to agents: connections are used again, and one that misbehaves serves nobody else."""

import asyncio
from contextlib import suppress

import pytest
from yarl import URL

from placet.deliveries.guarded_resolver import GuardedResolver
from placet.relay.upstream import agent_client as agent_http
from placet.relay.upstream.agent_client import AgentHttpClient
from placet.relay.upstream.connection import ConnectTimeout, Deadlines, InvalidHttpResponse, PendingRequest
from tests.raw_server import serve_connections
from tests.relay.upstream.peer import (
    OK,
    EndedExchanges,
    Peer,
    open_client,
    open_request_function,
    read_whole_body,
    resolve_agent_host,
)

pytestmark = pytest.mark.anyio


async def test_a_connection_is_used_again_once_its_answer_is_whole() -> None:
    peer = Peer()
    async with open_request_function(peer) as ask:
        for _ in range(3):
            response = await ask(accept="application/json")
            assert (response.status, await read_whole_body(response)) == (200, b"ok")
    assert peer.connections == 1
    host = f"host: 127.0.0.1:{peer.url.port}".encode()
    assert peer.requests[0].split(b"\r\n") == [
        b"POST /a2a?x=%20y HTTP/1.1",
        host,
        b"accept: application/json",
        b"content-length: 2",
        b"",
        b"{}",
    ]


async def test_requests_at_once_have_a_connection_each() -> None:
    peer = Peer()
    async with open_request_function(peer) as ask:
        responses = await asyncio.gather(*(ask() for _ in range(20)))
        assert [await read_whole_body(one) for one in responses] == [b"ok"] * 20
        again = await asyncio.gather(*(ask() for _ in range(20)))
        assert [await read_whole_body(one) for one in again] == [b"ok"] * 20
    assert 1 <= peer.connections <= 20


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
        OK + b"forged",
    ],
)
async def test_closed_or_unsolicited_connection_is_not_reused(
    answer: bytes,
) -> None:
    peer = Peer(answer)
    async with open_request_function(peer) as ask:
        first = await ask()
        with suppress(InvalidHttpResponse):  # it was all read together, and not all of it was HTTP
            assert await read_whole_body(first) == b"ok"
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 2


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged", b"\r\n"])
async def test_bytes_between_requests_are_no_answer_to_the_second(
    said: bytes,
) -> None:
    peer = Peer()
    async with open_client(peer) as client:
        await read_whole_body(await client.request("POST", peer.url, {}, b"{}"))
        peer.say(said)  # and nobody has had the time to read it
        assert client.send("POST", peer.url, {}, b"{}", 5.0, EndedExchanges()) is None
        assert await read_whole_body(await client.request("POST", peer.url, {}, b"{}")) == b"ok"
    assert peer.connections == 2


async def test_unread_requests_do_not_accumulate() -> None:
    peer = Peer()

    async def answer_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await peer.left.wait()
        writer.close()

    client = AgentHttpClient(GuardedResolver(resolve_agent_host, allow_loopback=True))
    large = b"x" * (32 * 2**20)  # more than sockets hold
    async with serve_connections(answer_at_once, limit=1024) as port, asyncio.timeout(60):
        url = URL(f"http://127.0.0.1:{port}/")
        for _ in range(2):
            assert await read_whole_body(await client.request("POST", url, {}, large)) == b"ok"
        peer.left.set()
        await client.aclose()
    assert peer.connections == 2


async def test_abandoned_request_leaves_no_answer_for_the_next() -> None:
    peer = Peer(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")
    async with open_request_function(peer) as ask:
        response = await ask()
        response.close()
        peer.answers.append(b"HTTP/1.1 100 Continue\r\n\r\n")
        abandoned = asyncio.ensure_future(ask())
        while len(peer.requests) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.wait({abandoned}, timeout=0.05)  # let the unfinished answer arrive
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 3


async def test_a_name_is_looked_up_and_one_without_an_address_is_an_error_of_the_network() -> None:
    peer = Peer()
    async with open_request_function(peer) as ask:
        known = URL(f"http://agent.example:{peer.url.port}/", encoded=True)
        assert await read_whole_body(await ask(url=known)) == b"ok"
        assert f"host: agent.example:{peer.url.port}".encode() in peer.requests[0]
        with pytest.raises(OSError, match="no address"):
            await ask(url=URL("http://other.example/", encoded=True))


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb: c"])
async def test_header_injection_is_refused(value: str) -> None:
    peer = Peer()
    async with open_request_function(peer) as ask:
        with pytest.raises(OSError, match="line break"):
            await ask(x=value)
        with pytest.raises(OSError, match="not allowed"):
            await ask(url=URL(f"{peer.url.origin()}/a b", encoded=True))
    assert not peer.requests


async def test_failed_connection_has_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_http, "CONNECT_TIMEOUT_S", 0.05)

    async def never(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    client = AgentHttpClient(GuardedResolver(never))
    with pytest.raises(ConnectTimeout):
        await client.request("GET", URL("http://agent.example/"), {}, b"")


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_http, "IDLE_TIMEOUT_S", 0.02)
    peer = Peer()
    async with open_request_function(peer) as ask:
        assert await read_whole_body(await ask()) == b"ok"
        await peer.left.wait()
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 2


async def test_request_on_an_open_connection_is_sent_at_once() -> None:
    peer, ends = Peer(), EndedExchanges()
    async with open_client(peer) as client:
        assert client.send("POST", peer.url, {}, b"{}", 5.0, ends) is None
        await read_whole_body(await client.request("POST", peer.url, {}, b"{}", 5.0, ends))
        asked = client.send("POST", peer.url, {}, b"{}", 5.0, ends)
        assert asked is not None
        assert client.send("POST", peer.url, {}, b"{}", 5.0, ends) is None
        assert (await asked.head()).read_now() == b"ok"
    assert (peer.connections, ends.count) == (1, 2)


async def test_paused_wait_still_gets_the_answer() -> None:
    peer, ends = Peer(OK, b""), EndedExchanges()
    async with open_client(peer) as client:
        await read_whole_body(await client.request("POST", peer.url, {}, b"{}"))
        asked = client.send("POST", peer.url, {}, b"{}", 5.0, ends)
        assert asked is not None
        early = Deadlines(0.02, PendingRequest.interrupt)
        assert await asked.wait_for_head(early) is None
        assert ends.count == 0
        peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nla")
        response = await asked.wait_for_head(early)
        assert response is not None
        assert not response.whole
        assert response.read_now() is None
        peer.say(b"te")
        assert await read_whole_body(response) == b"late"
        assert await read_whole_body(await client.request("POST", peer.url, {}, b"{}")) == b"ok"
    assert (peer.connections, ends.count) == (1, 1)


@pytest.mark.parametrize("interrupted", [False, True])
async def test_cancellation_ends_the_exchange_and_its_connection(interrupted: bool) -> None:
    peer, ends = Peer(OK, b""), EndedExchanges()
    async with open_client(peer) as client:
        await read_whole_body(await client.request("POST", peer.url, {}, b"{}"))
        asked = client.send("POST", peer.url, {}, b"{}", 5.0, ends)
        assert asked is not None
        waiting = asyncio.create_task(asked.head())
        await asyncio.sleep(0)
        if interrupted:
            asked.interrupt()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await peer.left.wait()
        assert await read_whole_body(await client.request("POST", peer.url, {}, b"{}")) == b"ok"
    assert (peer.connections, ends.count) == (2, 1)


async def test_an_answer_that_is_not_whole_in_time_fails_its_head_or_its_body() -> None:
    peer, ends = Peer(b"", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nla"), EndedExchanges()
    async with open_client(peer) as client:
        with pytest.raises(TimeoutError):
            await client.request("POST", peer.url, {}, b"{}", 0.02, ends)
        response = await client.request("POST", peer.url, {}, b"{}", 0.05, ends)
        with pytest.raises(TimeoutError):
            await read_whole_body(response)
        await read_whole_body(await client.request("POST", peer.url, {}, b"{}", 5.0, ends))
    assert (peer.connections, ends.count) == (3, 3)


async def test_an_exchange_that_cannot_begin_has_ended() -> None:
    peer, ends = Peer(), EndedExchanges()
    async with open_client(peer) as client:
        with pytest.raises(OSError, match="line break"):
            await client.request("POST", peer.url, {"x": "a\r\nb: c"}, b"{}", 5.0, ends)
        with pytest.raises(OSError, match="no address"):
            await client.request("POST", URL("http://other.example/"), {}, b"{}", 5.0, ends)
    assert ends.count == 2
