"""What HTTP clients of all kinds get: old versions, compressed bodies, large replies, rate limits."""

import gzip
import socket
import zlib
from typing import Any

import httpx
import pytest

from tests.server.running import RunningServer

WAIT_S = 60.0


def exchange(server: RunningServer, request: bytes) -> tuple[bytes, bytes]:
    """Send raw bytes and return head and body of everything that comes until the server closes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head.lower(), body


def close_case(server: RunningServer, client: httpx.Client, reason: str = "") -> dict[str, Any]:
    hitl = server.open(client)
    client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": reason})
    return hitl


# Old and careless clients


def test_an_http_10_client_gets_an_event_stream_without_chunks(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = close_case(server, client)
    path = f"/v1/reviews/{hitl['case_id']}/events"
    head, body = exchange(
        server, f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {server.api_key}\r\n\r\n".encode()
    )
    assert head.split()[1] == b"200"
    assert b"transfer-encoding" not in head
    assert body.startswith(b"retry: 2000\n\n")
    assert b"event: review.cancelled\n" in body
    assert body.endswith(b"\n\n")


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/inbox", "/review/x", "/v1/reviews/x/status"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_http_10_client_gets_complete_replies(server: RunningServer, method: str, path: str) -> None:
    head, body = exchange(server, f"{method} {path} HTTP/1.0\r\n\r\n".encode())
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert b"transfer-encoding" not in head
    assert len(body) == (length if method == "GET" else 0)


@pytest.mark.parametrize(
    "headers",
    [b"", b"X-Host: a\r\n", b"Host: a\r\nHost: a\r\n", b"Host: a\r\nhost: b\r\n"],
    ids=["none", "another name", "twice", "two different"],
)
@pytest.mark.parametrize("path", [b"/healthz", b"/v1/reviews/x/status"])
def test_http_11_without_exactly_one_host_gets_400(
    server: RunningServer, path: bytes, headers: bytes
) -> None:
    head, body = exchange(server, b"GET " + path + b" HTTP/1.1\r\n" + headers + b"\r\n")
    assert head.split()[1] == b"400"
    assert b"Send exactly one Host header." in body


@pytest.mark.parametrize(
    "host",
    [
        b"a b",
        b"a\tb",
        b"a/b",
        b"a\\b",
        b"a@b",
        b"user:pw@a",
        b"a?b",
        b"a#b",
        b"<a>",
        b"a:x",
        b"a:1:2",
        b"[a",
        b"\xe4",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_host_that_is_none_gets_400(server: RunningServer, host: bytes, version: bytes) -> None:
    head, body = exchange(server, b"GET /healthz HTTP/" + version + b"\r\nHost: " + host + b"\r\n\r\n")
    assert head.split()[1] == b"400"
    assert b"The Host header is not" in body


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"a",
        b"a:",
        b"a.example:8080",
        b"a_b.example",
        b"127.0.0.1",
        b"[::1]",
        b"[::1]:80",
        b"[fe80::1%25e0]",
    ],
    ids=ascii,
)
def test_every_valid_host_is_served(server: RunningServer, host: bytes) -> None:
    head, _ = exchange(server, b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
    assert head.split()[1] == b"200"


# Compressed request bodies


def post_case(client: httpx.Client, body: bytes, coding: str = "gzip") -> httpx.Response:
    headers = {"content-encoding": coding, "content-type": "application/json"}
    return client.post("/v1/cases", content=body, headers=headers)


CASE = b'{"type":"confirmation","prompt":"Water the plants?"}'


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_a_gzip_body_opens_a_case(client: httpx.Client, coding: str) -> None:
    assert post_case(client, gzip.compress(CASE), coding).status_code == 202
    assert post_case(client, CASE, "identity").status_code == 202


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "zstd", "x"])
def test_another_encoding_gets_415_that_names_gzip(client: httpx.Client, coding: str) -> None:
    refused = post_case(client, CASE, coding)
    assert (refused.status_code, refused.json()["error"]) == (415, "unsupported_encoding")
    assert refused.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    "body",
    [
        CASE,
        gzip.compress(CASE)[:-4],
        gzip.compress(CASE) + b"x",
        gzip.compress(CASE) * 2,
        zlib.compress(CASE),
    ],
    ids=["plain", "cut", "more", "twice", "zlib"],
)
def test_a_body_that_is_not_one_gzip_member_gets_400(client: httpx.Client, body: bytes) -> None:
    refused = post_case(client, body)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_a_gzip_bomb_is_refused_by_its_decompressed_size(client: httpx.Client) -> None:
    bomb = gzip.compress(b" " * 200_000_000, 1)
    assert len(bomb) < 1_000_000
    assert post_case(client, bomb).status_code == 413


# Large replies


def test_a_large_reply_is_compressed_for_those_who_accept_it(client: httpx.Client) -> None:
    plain = client.get("/openapi.json", headers={"accept-encoding": "gzip;q=0"})
    packed = client.get("/openapi.json", headers={"accept-encoding": "br, GZIP;q=0.5"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) * 3 < int(plain.headers["content-length"])
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert plain.content == packed.content


def test_small_replies_pages_and_streams_are_not_compressed(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = close_case(server, client)
    with server.page(server.open(client)) as page:
        assert len(page.response.content) > 8192
        assert "content-encoding" not in page.response.headers
    for path in ("/healthz", f"/v1/reviews/{hitl['case_id']}/events", "/inbox"):
        assert "content-encoding" not in client.get(path).headers


def test_each_encoding_of_a_large_poll_has_its_own_etag(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, type="input", context={"form": {"fields": [FIELD]}})
    with server.page(hitl) as page:
        page.post("respond", {"action": "submit", "asked": ["text"], "field.text": "x" * 9_000})
    url = hitl["poll_url"]
    plain = client.get(url, headers={"accept-encoding": "identity"})
    packed = client.get(url, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.json() == packed.json()
    assert plain.json()["status"] == "completed"
    assert plain.headers["etag"] != packed.headers["etag"]
    assert packed.headers["vary"] == "Accept-Encoding"
    for first in (plain, packed):
        again = client.get(url, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.headers["etag"]) == (304, first.headers["etag"])
    assert client.get(url, headers={"if-none-match": '"1-gzip"'}).status_code == 200


FIELD = {"key": "text", "label": "Text", "type": "textarea", "required": True}


# Rate limits


def test_every_poll_tells_the_rate_limit(server: RunningServer, client: httpx.Client) -> None:
    url = server.open(client)["poll_url"]
    first = client.get(url)
    etag = {"if-none-match": first.headers["etag"]}
    limit, remaining = "x-ratelimit-limit", "x-ratelimit-remaining"
    assert first.headers[limit] == "60"
    unchanged = client.get(url, headers=etag)
    assert unchanged.status_code == 304
    assert unchanged.headers[limit] == "60"
    assert int(unchanged.headers[remaining]) >= int(first.headers[remaining])
    refused = next(answer for answer in (client.get(url) for _ in range(1000)) if answer.status_code == 429)
    assert (refused.headers[limit], refused.headers[remaining]) == ("60", "0")
    assert int(refused.headers["retry-after"]) >= 1
    assert client.get(url, headers=etag).headers[limit] == "60"
    closed = client.get(close_case(server, client)["poll_url"])
    assert (closed.headers[limit], closed.headers[remaining]) == ("60", "60")
