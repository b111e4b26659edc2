"""PlacetClient: requests, error handling and waiting."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import msgspec
import pytest

from placet import PlacetClient, PlacetError, ServerRefused
from placet.errors import Unavailable
from tests.server.running import RunningServer, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("client")) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.api_key) as client:
        yield client


def test_it_opens_follows_and_withdraws(client: PlacetClient) -> None:
    opened = client.open("confirmation", "Go?", timeout="2h", context={"why": "a test"})
    assert opened["status"] == "human_input_required"
    case_id = opened["hitl"]["case_id"]
    assert client.status(case_id)["status"] == "pending"
    assert client.cancel(case_id, reason="no need")["reason"] == "no need"
    assert client.status(case_id)["status"] == "cancelled"


def test_the_same_idempotency_key_opens_one_case(client: PlacetClient) -> None:
    first = client.open("confirmation", "Go?", idempotency_key="order 7")
    assert client.open("confirmation", "Go?", idempotency_key="order 7") == first


@pytest.mark.parametrize("key", ["Bestellung für Zoë", "order\n7", "\ud800"], ids=ascii)
def test_idempotency_key_invalid_in_a_header_is_refused_with_our_message(
    client: PlacetClient, key: str
) -> None:
    with pytest.raises(PlacetError, match="printable ASCII"):
        client.open("confirmation", "Go?", idempotency_key=key)


@pytest.mark.parametrize("key", ["Schlüssel", "placet_x\r\nHost: other"], ids=ascii)
def test_malformed_api_key_is_refused_with_our_message(server: RunningServer, key: str) -> None:
    with pytest.raises(PlacetError, match="not an API key"):
        PlacetClient(server.url, key)


def test_a_refusal_carries_the_servers_own_code_status_and_details(client: PlacetClient) -> None:
    with pytest.raises(ServerRefused) as refused:
        client.open("selection", "Which?", context={"options": []})
    assert (refused.value.status, refused.value.code) == (400, "invalid_request")
    assert refused.value.details["path"] == "context.options"
    assert "options" in refused.value.message
    assert refused.value.body()["error"] == "invalid_request"


def test_a_wrong_key_is_refused(server: RunningServer) -> None:
    with PlacetClient(server.url, "placet_wrong") as stranger, pytest.raises(ServerRefused) as refused:
        stranger.open("confirmation", "Go?")
    assert (refused.value.status, refused.value.code) == (401, "invalid_token")


@pytest.mark.parametrize(
    "case_id", ["review_nothing", "../../healthz", "a/b", "a?b=c", "a#b", "", "é", "a%2Fb"]
)
def test_special_characters_in_an_id_are_escaped(client: PlacetClient, case_id: str) -> None:
    for ask in (client.status, client.cancel):
        with pytest.raises(ServerRefused) as refused:
            ask(case_id)
        assert refused.value.code == "not_found"


def test_it_waits_until_the_case_is_closed(server: RunningServer, client: PlacetClient) -> None:
    hitl = client.open("confirmation", "Go?", inline_actions=["confirm"])["hitl"]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            server.press(hitl, "confirm")

    assert client.wait(hitl["case_id"], interval=5, sleep=sleep)["status"] == "completed"
    assert pauses == [5, 5, 5]


def test_wait_ends_at_the_timeout_and_reports_the_state(client: PlacetClient) -> None:
    case_id = client.open("confirmation", "Go?")["hitl"]["case_id"]
    pauses: list[float] = []
    assert client.wait(case_id, interval=2, at_most=5, sleep=pauses.append)["status"] == "pending"
    assert pauses == [2, 2, 2]
    assert client.wait(case_id, at_most=0, sleep=pauses.append)["status"] == "pending"


def test_wait_honours_retry_after(server: RunningServer, client: PlacetClient) -> None:
    hitl = client.open("confirmation", "Go?", inline_actions=["confirm"])["hitl"]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if seconds >= 1:  # the server has had enough
            server.press(hitl, "confirm")

    found = client.wait(hitl["case_id"], interval=0.001, sleep=sleep)
    assert found["status"] == "completed"
    assert len(pauses) >= 60
    assert pauses[-1] >= 1


@pytest.mark.parametrize(
    "address",
    [
        "http://placet.example",
        "ftp://placet.example",
        "placet.example",
        "",
        "http://10.0.0.1",
        "http://localhost.evil.example",
    ],
)
def test_api_key_is_not_sent_over_plain_http(address: str) -> None:
    with pytest.raises(PlacetError, match="https"):
        PlacetClient(address, "key")


@contextmanager
def serve_fixed_response(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """A server that is none of ours, and answers everything alike."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{other.server_port}"
        finally:
            other.shutdown()
            thread.join(60)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>", Unavailable),
        (502, b"Bad gateway", Unavailable),
        (302, b"", Unavailable),
        (200, b"[]", ServerRefused),
        (500, b"{}", ServerRefused),
        (404, b'{"error": 7, "message": null}', ServerRefused),
    ],
)
def test_response_of_another_service_is_an_error(status: int, body: bytes, error: type[Exception]) -> None:
    with (
        serve_fixed_response(status, body, Location="https://elsewhere.example") as url,
        PlacetClient(url, "k") as client,
        pytest.raises(error),
    ):
        client.status("review_a")


def test_unreachable_server_is_unavailable() -> None:
    with serve_fixed_response(200, b"{}") as url:
        pass
    with PlacetClient(url, "key", timeout=2) as client, pytest.raises(Unavailable, match="cannot be reached"):
        client.status("review_a")


def test_value_that_json_cannot_encode_is_an_error(client: PlacetClient) -> None:
    with pytest.raises(ValueError, match="JSON"):
        client.open("confirmation", "Go?", context={"number": float("nan")})
    with pytest.raises(TypeError):
        client.open("confirmation", "Go?", context={"thing": object()})


def test_opened_case_can_be_returned_as_a_response_body(client: PlacetClient) -> None:
    opened = client.open("confirmation", "Go?")
    assert msgspec.json.decode(msgspec.json.encode(opened)) == opened
    assert httpx.Response(202, json=opened).json()["hitl"]["poll_url"].startswith("http://127.0.0.1")
