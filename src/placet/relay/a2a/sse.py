"""Split, decode and encode server-sent events."""

import re
from typing import Any

import msgspec

# An event ends at an empty line, whichever of the three line ends its sender uses.
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_ENDS = (b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\r")
_decoder = msgspec.json.Decoder()
_LINES = re.compile(rb"\r\n|\n|\r")
_SAFE_LINE = re.compile(rb"id: ?[0-9]{1,6}|event: ?(?:message|error)|retry: ?[0-9]{1,6}")


class EventSplitter:
    """Cuts a stream into whole events, each with the empty line that ends it.

    An event may come in a million pieces: each byte is kept once and looked at a few times, never all anew.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._other_ends = False
        self.overrun = False
        """Set once an event has gone beyond the limit; nothing after it is read."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are whole by now."""
        if self.overrun:
            return []
        rest = self._rest
        begin, start = 0, self._keep(chunk)
        if not self._other_ends:
            return self._cut_at_newlines(start)
        events: list[bytes] = []
        while not self.overrun and (end := _END.search(rest, start)) is not None:
            event = bytes(rest[begin : end.end()])
            begin = start = end.end()
            self.overrun = len(event) > self._limit
            if not self.overrun:
                events.append(event)
        del rest[:begin]
        self.overrun = self.overrun or len(rest) > self._limit
        return events

    def _cut_at_newlines(self, start: int) -> list[bytes]:
        """As nearly every stream is written, and much faster than looking for all other ends."""
        if self._rest.find(b"\n\n", start) < 0:
            self.overrun = len(self._rest) > self._limit
            return []
        *whole, rest = self._rest.split(b"\n\n")
        events = [bytes(one) + b"\n\n" for one in whole]
        self._rest = rest
        large = next((place for place, one in enumerate(events) if len(one) > self._limit), None)
        self.overrun = large is not None or len(rest) > self._limit
        return events if large is None else events[:large]

    def feed_whole(self, chunk: bytes) -> bytes:
        """The same events as one piece, for a stream whose events nobody looks at."""
        if self.overrun:
            return b""
        if not self._rest and (end := _find_last_end(chunk, 0)) == len(chunk):
            return chunk
        end = _find_last_end(self._rest, self._keep(chunk))
        whole = bytes(self._rest[:end])
        del self._rest[:end]
        self.overrun = len(self._rest) > self._limit
        return whole

    def _keep(self, chunk: bytes) -> int:
        """Where to look from: a line end may have been cut in two."""
        start = max(0, len(self._rest) - 3)
        self._rest += chunk
        self._other_ends = self._other_ends or b"\r" in chunk
        return start

    @property
    def rest(self) -> bytes:
        """What has come of an event that is not whole."""
        return bytes(self._rest)


def _find_last_end(data: bytes | bytearray, start: int) -> int:
    """Where the last whole event ends; 0 if none does."""
    found = 0
    for end in _ENDS:
        place = data.rfind(end, max(start, found))
        if place >= 0:
            found = place + len(end)
    return found


def get_event_data(event: bytes) -> bytes | None:
    """The data of an event; None for a comment or a heartbeat without any."""
    if event.startswith(b"data: ") and event.endswith(b"\n\n") and len(event.splitlines()) == 2:
        return event[6:-2] or None
    found = [
        _get_field_value(line) for line in _LINES.split(event) if line == b"data" or line.startswith(b"data:")
    ]
    return b"\n".join(found) or None


def decode_events(stream: bytes) -> list[Any]:
    """The data of all events of a stream, read; raises msgspec.DecodeError."""
    joints = stream.count(b"}\n\ndata: {")
    plain = stream.startswith(b"data: {") and stream.endswith(b"}\n\n") and b"\r" not in stream
    if plain and stream.count(b"\n") == 2 * (1 + joints):
        # Objects, each in a line of its own: no two halves are an object, since no comma stands between them.
        found: list[Any] = _decoder.decode_lines(stream[6:-2].replace(b"\n\ndata: ", b"\n"))
        if len(found) == 1 + joints:
            return found
    events = EventSplitter(limit=len(stream)).feed(stream)
    return [_decoder.decode(data) for data in map(get_event_data, events) if data is not None]


def encode_event(document: Any) -> bytes:
    """A document as one event."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def replace_data(event: bytes, document: Any) -> bytes:
    """The event with other data, and of the rest only what can say nothing: its number and usual names."""
    kept = [line for line in _LINES.split(event) if _SAFE_LINE.fullmatch(line)]
    return b"".join(line + b"\n" for line in kept) + encode_event(document)


def _get_field_value(line: bytes) -> bytes:
    value = line[5:]
    return value[1:] if value.startswith(b" ") else value
