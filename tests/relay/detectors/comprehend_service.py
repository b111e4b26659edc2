"""A Comprehend of our own on loopback: it finds real places in the text that it is sent."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TARGET = "Comprehend_20171127.DetectPiiEntities"
PATTERNS = {
    "SSN": re.compile(r"\b\d{3}-\d{2}-\d{4}\b"),
    "EMAIL": re.compile(r"\b[\w.]+@[\w.]+\.\w+\b"),
    "BANK_ACCOUNT_NUMBER": re.compile(r"\b\d{10,12}\b"),
}
MAX_BYTES = 100 * 1024


class ComprehendService(ThreadingHTTPServer):
    """Remembers what it was sent; `trouble` makes it fail or lie."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.texts: list[str] = []
        self.trouble: str | None = None
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: ComprehendService
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["X-Amz-Target"] == TARGET
        assert self.headers["Authorization"].startswith("AWS4-HMAC-SHA256 ")
        self.server.texts.append(asked["Text"])
        trouble = self.server.trouble
        if trouble == "hangs":
            self.server.released.wait(30)
        if trouble == "fails":
            return self._send(500, {"__type": "InternalServerException", "message": "broken"})
        if trouble == "nonsense":
            return self._send(200, {"Entities": [{"Type": "SSN"}]})
        if len(asked["Text"].encode()) > MAX_BYTES or not asked["Text"]:
            return self._send(400, {"__type": "TextSizeLimitExceededException", "message": "too long"})
        entities = list(_entities(asked["Text"]))
        if trouble == "lies":
            entities.append({"Type": "SSN", "Score": 1, "BeginOffset": 5, "EndOffset": 10_000_000})
        return self._send(200, {"Entities": entities})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _entities(text: str) -> Iterator[dict[str, Any]]:
    for kind, pattern in PATTERNS.items():
        for found in pattern.finditer(text):
            start, end = found.span()
            yield {"Type": kind, "Score": 0.9, "BeginOffset": start, "EndOffset": end}


@contextmanager
def run_comprehend_service() -> Iterator[ComprehendService]:
    service = ComprehendService()
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.released.set()
        service.shutdown()
        service.server_close()
        thread.join(60)
