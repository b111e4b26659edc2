"""Answers of agents: where each ends, and what is none, however it is cut into pieces."""

import asyncio

import pytest

from placet.relay.upstream import connection
from placet.relay.upstream.connection import InvalidHttpResponse, ResponseTruncated
from tests.relay.upstream.peer import OK, Peer, open_client, open_request_function, read_whole_body

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK, b"ok"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nt: u\r\n\r\n",
            b"ok",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
async def test_every_length_encoding_is_read(answer: bytes, body: bytes) -> None:
    peer = Peer(answer)
    async with open_request_function(peer) as ask:
        assert await read_whole_body(await ask()) == body
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 1


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with open_request_function(Peer(b"HTTP/1.1 200 OK\r\n\r\nall of it", hang_up=True)) as ask:
        assert await read_whole_body(await ask()) == b"all of it"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
    ],
)
async def test_interrupted_answer_is_not_complete(answer: bytes) -> None:
    async with open_request_function(Peer(answer, hang_up=True)) as ask:
        response = await ask()
        with pytest.raises(ResponseTruncated):
            await read_whole_body(response)


@pytest.mark.parametrize("before", [b"0\r\nx: ", b"1;x="], ids=["trailer", "chunk extension"])
async def test_endless_chunk_framing_is_refused(before: bytes) -> None:
    endless = before + b"y" * (4 * connection.MAX_BUFFERED_BYTES)
    peer = Peer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n" + endless)
    async with open_request_function(peer) as ask:
        response = await ask()
        with pytest.raises(InvalidHttpResponse):
            await read_whole_body(response)
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 2


async def test_many_small_chunks_are_not_counted_as_headers() -> None:
    peer = Peer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    async with open_request_function(peer) as ask:
        response = await ask()
        for _ in range(3):
            peer.say(b"6;x=" + b"y" * 30_000)
            peer.say(b"\r\npieces\r\n")
            assert await response.read_some() == b"pieces"
        peer.say(b"0\r\n\r\n")
        assert await read_whole_body(response) == b""


async def test_an_answer_without_a_length_that_the_relay_itself_cuts_off_is_not_whole() -> None:
    peer = Peer(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
    async with open_client(peer) as client:
        response = await client.request("GET", peer.url, {}, b"")
        assert await response.read_some() == b"half of it"
        await client.aclose()
        with pytest.raises(ResponseTruncated):
            await response.read_some()


async def test_a_connection_that_ends_before_an_answer_is_an_error_of_the_network() -> None:
    async with open_request_function(Peer(b"", hang_up=True)) as ask:
        with pytest.raises(ConnectionResetError):
            await ask()


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 9_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000,
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok",
        b"HTTP/2 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
        *(
            b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\nok"
            for lines in (
                b"content-length: 2\r\ncontent-length: 2",
                b"content-length: 2\r\ncontent-length: 3",
                b"content-length: 2, 2",
                b"content-length: -2",
                b"content-length: +2",
                b"content-length: 99999999999999999999999",
                b"transfer-encoding: chunked\r\ncontent-length: 2",
                b"transfer-encoding : chunked",
                b"x: a\r\n  content-type: b\r\ncontent-length: 2",
                b"x: a\x00b\r\ncontent-length: 2",
                b"x: a\rcontent-type: b\r\ncontent-length: 2",
            )
        ),
        *(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
            for chunks in (
                b"2\nok\n0\n\n",
                b"-2\r\nok\r\n0\r\n\r\n",
                b"0x2\r\nok\r\n0\r\n\r\n",
                b"FFFFFFFFFFFFFFFFF\r\nok",
                b"2;a\nb\r\nok\r\n0\r\n\r\n",
                b"2\r\nok0\r\n\r\n",
                b"2\r\nok\r\n0\r\ncontent-length: 5\r\n\r\n",
            )
        ),
    ],
)
async def test_invalid_http_is_refused(answer: bytes) -> None:
    peer = Peer(answer)
    async with open_request_function(peer) as ask:
        with pytest.raises(InvalidHttpResponse):
            await read_whole_body(await ask())
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 2


async def test_reading_pauses_until_the_answer_is_consumed() -> None:
    size = 8 * connection.MAX_BUFFERED_BYTES
    peer = Peer(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    async with open_request_function(peer) as ask:
        response = await ask()
        most = total = 0
        while piece := await response.read_some():
            most, total = max(most, len(piece)), total + len(piece)
            await asyncio.sleep(0)
        assert total == size
        assert most < size
        assert await read_whole_body(await ask()) == b"ok"
    assert peer.connections == 1
