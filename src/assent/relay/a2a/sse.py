"""Server-sent events on their way through: cut into events, bounded, and put together again."""

import re
from typing import Any

import msgspec

# An event ends at an empty line, whichever of the three line ends its sender uses.
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_LINES = re.compile(rb"\r\n|\n|\r")


class EventSplitter:
    """Cuts a stream into whole events, each with the empty line that ends it."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self.overrun = False
        """Set once an event has gone beyond the limit; nothing after it is read."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are whole by now."""
        if self.overrun:
            return []
        data = self._rest + chunk if self._rest else chunk
        # A line end may have been cut in two: look again at the last few bytes, not at all of them.
        begin, start = 0, max(0, len(self._rest) - 3)
        events: list[bytes] = []
        while not self.overrun and (end := _END.search(data, start)) is not None:
            event = data[begin : end.end()]
            begin = start = end.end()
            self.overrun = len(event) > self._limit
            if not self.overrun:
                events.append(event)
        self._rest = data[begin:]
        self.overrun = self.overrun or len(self._rest) > self._limit
        return events

    @property
    def rest(self) -> bytes:
        """What has come of an event that is not whole."""
        return self._rest


def event_data(event: bytes) -> bytes | None:
    """The data of an event; None for a comment or a heartbeat without any."""
    found = [_value(line) for line in _LINES.split(event) if line == b"data" or line.startswith(b"data:")]
    return b"\n".join(found) if found else None


def frame(document: Any) -> bytes:
    """A document as one event."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def with_data(event: bytes, document: Any) -> bytes:
    """The event with other data, its id and name kept."""
    kept = [
        line for line in _LINES.split(event) if line and not (line == b"data" or line.startswith(b"data:"))
    ]
    return b"".join(line + b"\n" for line in kept) + frame(document)


def _value(line: bytes) -> bytes:
    value = line[5:]
    return value[1:] if value.startswith(b" ") else value
