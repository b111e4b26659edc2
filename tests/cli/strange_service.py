"""A foreign service for tests: it returns planned responses and records requests."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from msgspec import Struct

from placet.protocol.service_paths import DISCOVERY


class Call(Struct, frozen=True, kw_only=True):
    """What it was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Reply(Struct, frozen=True, kw_only=True):
    """What it answers."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}


class StrangeService:
    """One server on loopback; `replies` are by path, values or functions of the call."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[Call] = []
        self.discoveries: list[Call] = []
        self.replies: dict[str, Reply | Callable[[Call], Reply]] = {}

    def reply(self, call: Call) -> Reply:
        (self.discoveries if call.path == DISCOVERY else self.calls).append(call)
        found = self.replies.get(call.path, Reply(status=404))
        return found(call) if callable(found) else found

    def asks(self, path: str = "/act", **hitl: Any) -> None:
        """Answer calls there with a question to a person."""
        told = {
            "spec_version": "0.9",
            "case_id": "case-1",
            "type": "confirmation",
            "prompt": "Go?",
            "review_url": f"{self.url}/review/1",
            "poll_url": f"{self.url}/poll",
            **hitl,
        }
        self.replies[path] = json_reply({"status": "human_input_required", "hitl": told}, status=202)

    def answer_polls_with(self, **poll: Any) -> None:
        """Answer polls with this."""
        self.replies["/poll"] = json_reply({"case_id": "case-1", **poll})


def json_reply(value: Any, *, status: int = 200) -> Reply:
    return Reply(status=status, body=msgspec.json.encode(value), headers={"Content-Type": "application/json"})


@contextmanager
def strange_service() -> Iterator[StrangeService]:
    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = service.reply(Call(method=self.command, path=self.path, headers=headers, body=body))
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, format: str, *arguments: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = StrangeService(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
