"""A tiny site on the loopback address that serves rendered pages with the headers of the real server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

from placet.pages import read_assets
from placet.server.page_replies import HEADERS

POSTED = b"<!doctype html><title>posted</title><main class=outcome></main>"
KEPT = {"cache-control": "public, max-age=31536000, immutable"}
MEDIA = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Site:
    """Pages by name, and every body that was posted."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self.posts: list[tuple[str, str]] = []
        self.address = ""

    @property
    def answers(self) -> list[tuple[str, str]]:
        """What was posted as an answer; the page's script posts too, whenever it gets to it."""
        return [(path, body) for path, body in self.posts if path.endswith("/respond")]

    def answer(self, path: str) -> tuple[int, str, bytes]:
        name = unquote(path.split("?", maxsplit=1)[0]).removeprefix("/")
        if name.startswith("static/"):
            file = name.removeprefix("static/")
            return 200, MEDIA[file.rpartition(".")[2]], read_assets()[file]
        if name in self.pages:
            return 200, "text/html; charset=utf-8", self.pages[name].encode()
        return 404, "text/plain", b""


@contextmanager
def serving(pages: Mapping[str, str]) -> Iterator[Site]:
    site = Site(pages)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.reply(*site.answer(self.path), kept=self.path.startswith("/static/"))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            site.posts.append((self.path, body.decode()))
            self.reply(200, "text/html; charset=utf-8", POSTED)

        def reply(self, status: int, media: str, body: bytes, *, kept: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body)))
            for name, value in {**HEADERS, **(KEPT if kept else {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
