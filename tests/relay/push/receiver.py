"""A caller's own address for notifications on the loopback address, in a thread of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from placet.http.listening import bind
from tests.relay.a2a.sdk_agent import serve_app
from tests.waiting import eventually


class Notification(Struct, frozen=True):
    """One notification as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Receiver:
    """What a test may know: the address, and what came in."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.told: list[Notification] = []
        self.statuses: list[int] = []
        """What to answer next; 200 when nothing is left."""

    def at(self, path: str) -> list[Notification]:
        return [one for one in self.told if one.path == path]

    def states(self, path: str) -> list[str]:
        """The states that were told there, in order."""
        return [state for one in self.at(path) if (state := read_state(one.body)) is not None]

    def wait_for(self, path: str, state: str) -> Notification:
        """The notification of a state."""
        return eventually(lambda: next((one for one in self.at(path) if read_state(one.body) == state), None))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.told.append(Notification(scope["path"], headers, msgspec.json.decode(body)))
        status = self.statuses.pop(0) if self.statuses else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def read_state(body: dict[str, Any]) -> str | None:
    about = body.get("task") or body.get("statusUpdate") or body
    status = about.get("status")
    return status["state"] if isinstance(status, dict) else None


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    listener = bind("127.0.0.1", 0)
    receiver = Receiver(f"http://127.0.0.1:{listener.getsockname()[1]}")
    with serve_app(receiver, listener):
        yield receiver
