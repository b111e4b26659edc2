"""An agent's callback address: a real HTTP server that answers as told and remembers what it got."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any, NamedTuple

import msgspec

from tests.waiting import PATIENCE_S


class Received(NamedTuple):
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)


class CallbackReceiver:
    """Answers with `status`; what arrived comes out of `take` in order."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.status = 204
        self._arrived: Queue[Received] = Queue()

    def arrive(self, received: Received) -> None:
        self._arrived.put(received)

    def take(self) -> Received:
        """The next callback; fails if none comes."""
        return self._arrived.get(timeout=PATIENCE_S)

    @property
    def waiting(self) -> int:
        return self._arrived.qsize()


@contextmanager
def receiving() -> Iterator[CallbackReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.arrive(Received(dict(self.headers.items()), body))
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        receiver = CallbackReceiver(http.server_port)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            http.shutdown()
            thread.join(PATIENCE_S)
