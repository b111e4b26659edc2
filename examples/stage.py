"""What every example needs around it: a server, and a person who opens the link and answers."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import uvicorn

PATIENCE_S = 60.0


@contextmanager
def run_placet_server() -> Iterator[tuple[str, str]]:
    """The address and a key of the server that PLACET_SERVER and PLACET_KEY name, or of a new one."""
    if "PLACET_SERVER" in os.environ:
        yield os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"]
        return
    command = [str(Path(sys.executable).with_name("placet")), "serve", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**inherited, "PLACET_ALLOW_LOOPBACK": "true"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield read_address_and_key(server)
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE_S)


def read_address_and_key(server: "subprocess.Popen[str]") -> tuple[str, str]:
    """The address, from standard error, and the admin key, from the file whose path a first start prints."""
    if server.stdout is None or server.stderr is None:
        raise RuntimeError("the server's output is not read")
    key = Path(server.stdout.readline().strip()).read_text("utf-8").strip()
    for line in server.stderr:
        if found := re.search(r"server_started url=(\S+)", line):
            wait_until(lambda: _is_ready(f"{found[1]}/readyz"))
            return found[1], key
    raise RuntimeError("the server did not start")


@contextmanager
def serve_app(app: Any, port: int) -> Iterator[None]:
    """An ASGI app of the example's own, served from a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def find_free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for something to happen, but not forever."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.02)


def answer(review_url: str, action: str, fields: Mapping[str, Any] | None = None) -> None:
    """Open the link, fill in the form and press a button, as a person with a plain browser does."""
    with httpx.Client(follow_redirects=True, timeout=PATIENCE_S) as browser:
        page = browser.get(review_url)
        form = AnswerForm()
        form.feed(page.text)
        typed = {**form.hidden, **(fields or {}), "action": action}
        said = browser.post(page.url.join(form.address), data=typed)
        if said.status_code != 200:
            raise RuntimeError(f"the page did not take the answer: {said.status_code}")


class AnswerForm(HTMLParser):
    """The form of a review page that sends the answer: where to, and with which hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self.hidden: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = found.get("action", "").endswith("/respond")
            self.address = found["action"] if self._inside else self.address
        elif tag == "input" and self._inside and found.get("type") == "hidden":
            self.hidden[found["name"]] = found.get("value", "")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False
