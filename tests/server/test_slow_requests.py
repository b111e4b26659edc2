"""A client that sends its request slowly, or never, does not keep its connection."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from placet.server import single_write_protocol
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S

LIMIT_S = 1.0
DRIBBLE_S = 0.1
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_write_protocol, "HEAD_WITHIN_S", LIMIT_S)
    monkeypatch.setattr(single_write_protocol, "BODY_WITHIN_S", LIMIT_S)


@pytest.fixture
def connection(server: RunningServer) -> Iterator[socket.socket]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        yield connection


def dribble(connection: socket.socket, piece: Callable[[int], bytes]) -> bytes:
    """Send small pieces until the server closes the connection; return what it said."""
    connection.settimeout(DRIBBLE_S)
    received = b""
    until = time.monotonic() + PATIENCE_S
    for number in range(1_000_000):
        assert time.monotonic() < until, "the connection is still open"
        try:
            connection.sendall(piece(number))
            part = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return received
        if not part:
            return received
        received += part
    return received


def test_a_head_that_comes_slowly_is_refused(connection: socket.socket) -> None:
    connection.sendall(b"GET /healthz HTTP/1.1\r\n")
    received = dribble(connection, lambda number: b"x-%d: y\r\n" % number)
    assert received.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"The request took too long to arrive." in received


def test_a_connection_on_which_nothing_is_sent_is_closed(connection: socket.socket) -> None:
    assert dribble(connection, lambda _: b"") == b""


def test_empty_lines_do_not_keep_a_connection_open(connection: socket.socket) -> None:
    assert b"HTTP/1.1 200" not in dribble(connection, lambda _: b"\r\n")


def test_empty_lines_after_a_reply_do_not_keep_a_connection_open(connection: socket.socket) -> None:
    connection.sendall(HEALTH)
    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    dribble(connection, lambda _: b"\r\n")


@pytest.mark.parametrize("path", [b"/v1/cases", b"/inbox/sign-in", b"/nothing"])
def test_a_body_that_comes_slowly_is_refused(
    server: RunningServer, connection: socket.socket, path: bytes
) -> None:
    key = server.api_key.encode()
    head = b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\ncontent-length: 100000\r\n\r\n"
    connection.sendall(head % (path, key))
    assert b"HTTP/1.1 2" not in dribble(connection, lambda _: b" ")


def test_a_body_without_end_is_not_read_after_the_reply(connection: socket.socket) -> None:
    connection.sendall(b"POST /nothing HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    assert dribble(connection, lambda _: chunk).startswith(b"HTTP/1.1 404")


def test_a_request_in_several_pieces_and_an_idle_connection_are_fine(connection: socket.socket) -> None:
    for _ in range(2):
        connection.sendall(HEALTH[:10])
        time.sleep(LIMIT_S / 20)
        connection.sendall(HEALTH[10:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(LIMIT_S * 1.5 + 1)  # keep-alive: longer than a head may take


def test_an_open_event_stream_is_not_slow(server: RunningServer, connection: socket.socket) -> None:
    with server.client(server.api_key) as client:
        hitl = server.open(client)
    path = hitl["events_url"].removeprefix(server.url).encode()
    head = b"GET %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\n\r\n" % (path, server.api_key.encode())
    connection.sendall(head)
    time.sleep(LIMIT_S * 2 + 1)
    connection.setblocking(False)
    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    with pytest.raises(BlockingIOError):
        connection.recv(1)
