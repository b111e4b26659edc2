"""The end of a server: streams are closed, what was acknowledged is kept, and nobody can hold it up."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.process import ServerProcess, serving
from tests.server.running import PRESSED
from tests.server.sse import open_stream
from tests.waiting import PATIENCE_S, eventually

DRAFT = {"type": "confirmation", "prompt": "Go?", "inline_actions": ["confirm"]}
SOON_S = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with serving(tmp_path) as server:
        server.url()
        yield server


def key_of(server: ServerProcess) -> str:
    return server.admin_key


class Writer(threading.Thread):
    """An agent that opens and answers cases until the server hangs up, and remembers what it was told."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._client = server.client(key_of(server))
        self.opened: list[str] = []
        self.answered: list[str] = []

    def run(self) -> None:
        with self._client:
            while self._once():
                pass

    def _once(self) -> bool:
        try:
            response = self._client.post("/v1/cases", json=DRAFT)
            if response.status_code != 202:
                return False
            hitl = response.json()["hitl"]
            self.opened.append(hitl["case_id"])
            token = {"Authorization": f"Bearer {hitl['submit_token']}"}
            body = {"action": "confirm", **PRESSED}
            if self._client.post(hitl["submit_url"], json=body, headers=token).status_code == 200:
                self.answered.append(hitl["case_id"])
        except httpx.HTTPError:
            return False
        return True


def test_a_server_told_to_stop_under_load_ends_soon_and_keeps_what_it_acknowledged(
    server: ServerProcess, tmp_path: Path
) -> None:
    key = key_of(server)
    writers = [Writer(server) for _ in range(4)]
    with ExitStack() as stack:
        client = stack.enter_context(server.client(key))
        hitl = client.post("/v1/cases", json=DRAFT).json()["hitl"]
        streams = []
        for _ in range(10):
            own = stack.enter_context(server.client(key))
            streams.append(stack.enter_context(open_stream(own, hitl["events_url"])))
            streams[-1].read_until("retry")
        for writer in writers:
            writer.start()
        eventually(lambda: sum(len(writer.answered) for writer in writers) >= 40)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < SOON_S
        for stream in streams:
            assert stream.read_rest() == []  # ended in order, not broken off
    for writer in writers:
        writer.join(PATIENCE_S)
    assert "Traceback" not in server.stderr
    with serving(tmp_path) as again, again.client(key) as client:
        assert again.url()
        for case_id in {case_id for writer in writers for case_id in writer.opened}:
            assert client.get(f"/v1/reviews/{case_id}/status").status_code == 200
        for case_id in {case_id for writer in writers for case_id in writer.answered}:
            assert client.get(f"/v1/reviews/{case_id}/status").json()["status"] == "completed"


def test_a_request_under_way_is_finished_first(server: ServerProcess) -> None:
    address = urlsplit(server.url())
    body = b'{"type": "confirmation", "prompt": "Go?"}'
    head = f"POST /v1/cases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key_of(server)}\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
        server.process.terminate()
        eventually(lambda: is_refusing(address.hostname or "", address.port or 0))
        connection.sendall(body[10:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 202")
    assert server.process.wait(SOON_S) == 0


def is_refusing(host: str, port: int) -> bool:
    """Whether nobody listens there any more."""
    try:
        socket.create_connection((host, port), timeout=60).close()
    except OSError:
        return True
    return False


def test_a_caller_that_does_not_read_its_stream_holds_up_nobody(server: ServerProcess) -> None:
    address = urlsplit(server.url())
    with server.client(key_of(server)) as client, ExitStack() as stack:
        # Answers as large as they may be, for callers that take nothing in.
        draft = {"type": "x-large", "prompt": "Go?", "actions": ["go"], "inline_actions": ["go"]}
        cases = [client.post("/v1/cases", json=draft).json()["hitl"] for _ in range(8)]
        for hitl in cases:
            stalled = stack.enter_context(socket.socket())
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            stalled.connect((address.hostname, address.port))
            path = urlsplit(hitl["events_url"]).path
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key_of(server)}\r\n\r\n"
            stalled.sendall(request.encode())
            assert stalled.recv(300).startswith(b"HTTP/1.1 200")
        for hitl in cases:
            token = {"Authorization": f"Bearer {hitl['submit_token']}"}
            data: dict[str, Any] = {"data": {"text": "x" * 200_000}}
            answer = client.post(hitl["submit_url"], json={"action": "go", **data, **PRESSED}, headers=token)
            assert answer.status_code == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < SOON_S


def test_a_caller_that_keeps_its_connection_open_holds_up_nobody(server: ServerProcess) -> None:
    with server.client() as idle:
        assert idle.get("/healthz").status_code == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < SOON_S / 2


def test_a_request_that_never_ends_is_broken_off_in_time(server: ServerProcess) -> None:
    address = urlsplit(server.url())
    head = f"POST /v1/cases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key_of(server)}\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < SOON_S
