"""The short way for whole replies, over a raw socket: whatever the pieces, the same answers in order."""

import socket
from collections.abc import Iterator

import pytest

from tests.server.running import RunningServer

WAIT_S = 60.0


class RawConnection:
    """A connection on which bytes are sent as they are."""

    def __init__(self, server: RunningServer) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._rest = b""

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self._socket.sendall(part)

    def reply(self) -> tuple[int, bytes]:
        """Status and body of the next reply."""
        head = self._until(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")),
            0,
        )
        while len(self._rest) < length:
            self._rest += self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(head.split(b" ")[1]), body

    def has_ended(self) -> bool:
        """Whether the server hangs up, with nothing more to say."""
        return not self._rest and self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._rest += self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the server hung up"
        return data


@pytest.fixture
def raw_connection(server: RunningServer) -> Iterator[RawConnection]:
    connection = RawConnection(server)
    yield connection
    connection.close()


def build_request(body: bytes, *headers: bytes, key: str) -> bytes:
    head = [
        b"POST /v1/cases HTTP/1.1",
        b"host: x",
        b"authorization: Bearer " + key.encode(),
        b"content-length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


BODY = b'{"type":"approval","prompt":"Send it?","context":{"artifact":"Hello"}}'


def test_a_body_that_comes_byte_by_byte_is_whole_in_the_end(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    request = build_request(BODY, key=server.api_key)
    raw_connection.send(*(request[place : place + 1] for place in range(len(request))))
    assert raw_connection.reply()[0] == 202


def test_requests_sent_in_one_go_are_answered_in_their_order(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    unknown = b"GET /v1/reviews/review_unknown/status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\n\r\n"
    asking = unknown % server.api_key.encode()
    raw_connection.send(
        build_request(BODY, key=server.api_key)
        + asking
        + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
        + asking
    )
    assert [raw_connection.reply()[0] for _ in range(4)] == [202, 404, 200, 404]


def test_a_long_body_is_left_to_the_app_and_taken(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    long = BODY.replace(b"Hello", b"x" * 100_000)
    raw_connection.send(build_request(long, key=server.api_key), build_request(BODY, key=server.api_key))
    assert [raw_connection.reply()[0] for _ in range(2)] == [202, 202]


def test_a_body_beyond_the_limit_is_refused(server: RunningServer, raw_connection: RawConnection) -> None:
    raw_connection.send(build_request(b"x" * 2_000_000, key=server.api_key)[:200_000])
    assert raw_connection.reply()[0] == 413


def test_expect_100_continue_is_answered(server: RunningServer, raw_connection: RawConnection) -> None:
    head, _, body = build_request(BODY, b"expect: 100-continue", key=server.api_key).partition(b"\r\n\r\n")
    raw_connection.send(head + b"\r\n\r\n")
    assert raw_connection.reply() == (100, b"")
    raw_connection.send(body)
    assert raw_connection.reply()[0] == 202


H2C = (b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAEAAEAAAAIAAAAB", b"Upgrade: h2c")


@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "in two pieces"])
def test_upgrade_offer_is_ignored(server: RunningServer, raw_connection: RawConnection, apart: bool) -> None:
    """As Java's client does with its defaults, and `curl --http2`."""
    request = build_request(BODY, *H2C, key=server.api_key)
    head, end, body = request.partition(b"\r\n\r\n")
    for _ in range(2):
        raw_connection.send(*((head + end, body) if apart else (request,)))
        assert raw_connection.reply()[0] == 202


def test_an_offer_that_may_go_on_in_the_next_piece_is_not_cut_in_two(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    """Or the rest of it would become part of the header before."""
    request = build_request(BODY, *H2C, key=server.api_key)
    head, end, body = request.partition(b"\r\n\r\n")
    raw_connection.send(head)
    with server.client() as another:
        another.get("/healthz")  # by now the server has read what came before
    raw_connection.send(b"-like" + end + body)
    assert raw_connection.reply()[0] == 400


def test_an_offer_within_a_body_is_part_of_the_body(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    rest = b"POST " + b"\r\n".join(H2C) + b"\r\n\r\n"
    request = build_request(b"{" + rest, key=server.api_key)
    raw_connection.send(request.removesuffix(rest))
    with server.client() as another:
        another.get("/healthz")  # by now the server has read what came before
    raw_connection.send(rest)
    assert raw_connection.reply()[0] == 400  # all of it came, and is no JSON


@pytest.mark.parametrize(
    ("version", "headers"), [(b"HTTP/1.1", b"connection: close\r\n"), (b"HTTP/1.0", b"")], ids=["1.1", "1.0"]
)
def test_connection_close_is_honoured(
    server: RunningServer, raw_connection: RawConnection, version: bytes, headers: bytes
) -> None:
    raw_connection.send(
        b"GET /v1/reviews/review_x/status " + version + b"\r\nhost: x\r\n" + headers + b"\r\n"
    )
    assert raw_connection.reply()[0] == 404
    assert raw_connection.has_ended()


def test_a_head_request_that_is_refused_has_no_body(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    raw_connection.send(b"HEAD /v1/reviews/review_x/status HTTP/1.1\r\nhost: x\r\n\r\n")
    raw_connection.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    head = raw_connection._until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404")
    assert raw_connection.reply()[0] == 200


def test_a_caller_who_leaves_in_the_middle_of_a_body_harms_nobody(
    server: RunningServer, raw_connection: RawConnection
) -> None:
    leaving = RawConnection(server)
    leaving.send(build_request(BODY, key=server.api_key)[:-10])
    leaving.close()
    raw_connection.send(build_request(BODY, key=server.api_key))
    assert raw_connection.reply()[0] == 202
