"""A caller of an event stream, as an agent would be one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.server.running import events_of
from tests.waiting import PATIENCE_S

Event = tuple[int, str, dict[str, Any]]


class Listener:
    """An open stream: what has come so far, and waiting for more."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.text = ""
        self._chunks = response.iter_text()

    def read_until(self, words: str) -> str:
        """Read until these words have come; fails when the stream ends or stays silent."""
        while words not in self.text:
            self.text += next(self._chunks)
        return self.text

    def read_rest(self) -> list[Event]:
        """Read to the end of the stream; all events that came."""
        self.text += "".join(self._chunks)
        return events_of(self.text)


@contextmanager
def open_stream(client: httpx.Client, url: str, last_event_id: str | None = None) -> Iterator[Listener]:
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    with client.stream("GET", url, headers=headers, timeout=PATIENCE_S) as response:
        yield Listener(response)
