"""A real server on the loopback address, in a thread of its own, on a clock that stands still."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import uvicorn

from placet.bootstrap.server import ServerParts, build
from placet.cases.case import Subject
from placet.desk.api_keys import DEFAULT_SCOPES, create_key
from placet.desk.draft import draft_from
from placet.desk.sweep import Sweep
from placet.http.listening import bind
from placet.ports.identity import Principal
from placet.ports.verifier import EvidenceVerifier
from placet.reviews.review_type import ReviewType
from placet.server.serving import build_server, create_event_loop
from placet.settings import Settings
from placet.testing.clock import FakeClock
from tests.waiting import PATIENCE_S

EXAMPLE = {"type": "confirmation", "prompt": "Water the plants?"}
PRESSED = {
    "submitted_via": "telegram_inline_button",
    "submitted_by": {"platform": "telegram", "platform_user_id": "7", "display_name": "Ada"},
}
T = TypeVar("T")


class RunningServer:
    """What a test may do with a server: talk HTTP to it, and work in its own event loop."""

    def __init__(self, parts: ServerParts, loop: asyncio.AbstractEventLoop, clock: FakeClock) -> None:
        self.parts = parts
        self.url = parts.settings.public_url
        self.clock = clock
        self.api_key = ""
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def create_key(self, name: str, *scopes: str) -> str:
        work = create_key(self.parts.store, name, now=self.clock(), scopes=scopes or DEFAULT_SCOPES)
        return self.run(work)

    @contextmanager
    def client(self, credential: str | None = None, **options: Any) -> Iterator[httpx.Client]:
        """A client that presents this credential, or none."""
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        with httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, **options) as client:
            yield client

    def open(self, client: httpx.Client, **draft: Any) -> dict[str, Any]:
        """The `hitl` object of a new case."""
        response = client.post("/v1/cases", json={**EXAMPLE, **draft})
        assert response.status_code == 202, response.text
        return response.json()["hitl"]

    def open_sample(self, client: httpx.Client, kind: ReviewType) -> dict[str, Any]:
        """The `hitl` object of a type's example. What only the relay may send is opened without HTTP."""
        if kind.reserved_field is None:
            return self.open(client, **kind.example())
        subject = Subject(entry_point=kind.entry_point)
        work = self.parts.desk.open(draft_from(kind.example()), Principal(name="acme"), subject=subject)
        hitl: dict[str, Any] = msgspec.json.decode(self.run(work).body)["hitl"]
        return hitl

    def press(self, hitl: dict[str, Any], action: str, **body: Any) -> httpx.Response:
        """Answer inline, as an agent does after a button was pressed."""
        headers = {"Authorization": f"Bearer {hitl['submit_token']}"}
        sent = {"action": action, **PRESSED, **body}
        return httpx.post(hitl["submit_url"], json=sent, headers=headers, timeout=PATIENCE_S)

    @contextmanager
    def page(self, hitl: dict[str, Any]) -> Iterator["ReviewPage"]:
        """The review page as a browser without JavaScript meets it."""
        with self.client(follow_redirects=True) as client:
            yield ReviewPage(client, client.get(hitl["review_url"]))

    def advance(self, **time: float) -> None:
        """Let time pass for the server."""
        self.clock.advance(timedelta(**time))

    def sweep(self) -> None:
        """Do at once what the clock has made due."""
        self.run(Sweep(self.parts.desk).run_once())

    def deliver(self) -> None:
        """Send at once what the outbox has due."""
        self.run(self.parts.outbox.run_once())


class ReviewPage:
    """One visit to a review page."""

    def __init__(self, client: httpx.Client, response: httpx.Response) -> None:
        self.client = client
        self.response = response

    @property
    def text(self) -> str:
        return self.response.text

    def hidden_fields(self) -> dict[str, str]:
        """The page's hidden fields."""
        inputs = re.findall(r"<input[^>]*>", self.text)
        hidden = [dict(re.findall(r'(\w+)="([^"]*)"', one)) for one in inputs if 'type="hidden"' in one]
        return {one["name"]: one["value"] for one in hidden if "name" in one and "value" in one}

    def post(self, verb: str, fields: dict[str, Any]) -> "ReviewPage":
        """Send a form of the page to one of its addresses."""
        address = self.response.url.copy_with(path=f"{self.response.url.path}/{verb}")
        response = self.client.post(address, data={**self.hidden_fields(), **fields})
        return ReviewPage(self.client, response)


def events_of(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The events of a stream's text: sequence, name, data."""
    found = re.findall(r"id: (\d+)\nevent: (\S+)\ndata: (.*)\n\n", text)
    return [(int(seq), name, msgspec.json.decode(data)) for seq, name, data in found]


class _Thread(threading.Thread):
    """Runs the server's loop; `ready` resolves once it is wired, or carries what went wrong."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        clock: FakeClock,
        verifier: EvidenceVerifier | None,
    ) -> None:
        super().__init__(name="server")
        self._clock = clock
        self._verifier = verifier
        self.ready: Future[RunningServer] = Future()
        self._settings = settings
        self._listener = listener
        self._server: uvicorn.Server | None = None

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=create_event_loop) as runner:
                runner.run(self._serve())
        except Exception as error:
            self.ready.set_exception(error)

    async def _serve(self) -> None:
        parts = await build(self._settings, now=self._clock, verifier=self._verifier)
        self._server = build_server(parts.app)
        self.ready.set_result(RunningServer(parts, asyncio.get_running_loop(), self._clock))
        await self._server.serve(sockets=[self._listener])

    def listens(self) -> bool:
        return not self.is_alive() or (self._server is not None and self._server.started)

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        self.join(PATIENCE_S)


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something that happens beside the test has happened; fails if it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        threading.Event().wait(0.01)


@contextmanager
def running(
    folder: Path, *, present: bool = False, verifier: EvidenceVerifier | None = None, **settings: Any
) -> Iterator[RunningServer]:
    """A server on a fresh SQLite file; `settings` are those of the server, whose clock stands still at an
    arbitrary time, or at the present. `base_url` may contain `{port}`."""
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    chosen = {"db": str(folder / "cases.db"), "port": port, "allow_loopback": True}
    if "base_url" in settings:
        settings["base_url"] = settings["base_url"].format(port=port)
    clock = FakeClock(datetime.now(UTC)) if present else FakeClock()
    thread = _Thread(Settings(**chosen | settings), listener, clock, verifier)
    thread.start()
    try:
        server = thread.ready.result(PATIENCE_S)
        eventually(thread.listens)
        server.api_key = server.create_key("acme")
        yield server
    finally:
        thread.stop()
        listener.close()
