"""Split, decode and encode server-sent events."""

import re
from typing import Any

import msgspec

# An event ends with an empty line. A line ends with CRLF, LF or CR.
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_ENDS = (b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\r")
_decoder = msgspec.json.Decoder()
_LINES = re.compile(rb"\r\n|\n|\r")
_SAFE_LINE = re.compile(rb"id: ?[0-9]{1,6}|event: ?(?:message|error)|retry: ?[0-9]{1,6}")


class EventSplitter:
    """Splits a stream into whole events, each with the empty line that ends it.

    The cost per byte is constant, even if an event arrives in very many chunks.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._has_carriage_returns = False
        self.overrun = False
        """Whether an event was larger than the limit. The splitter then ignores further input."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk and return the events that are now complete."""
        if self.overrun:
            return []
        buffer = self._buffer
        begin, start = 0, self._append(chunk)
        if not self._has_carriage_returns:
            return self._split_at_newlines(start)
        events: list[bytes] = []
        while not self.overrun and (end := _END.search(buffer, start)) is not None:
            event = bytes(buffer[begin : end.end()])
            begin = start = end.end()
            self.overrun = len(event) > self._limit
            if not self.overrun:
                events.append(event)
        del buffer[:begin]
        self.overrun = self.overrun or len(buffer) > self._limit
        return events

    def _split_at_newlines(self, start: int) -> list[bytes]:
        """Split a stream that uses LF only, as most do. This is much faster than searching for all ends."""
        if self._buffer.find(b"\n\n", start) < 0:
            self.overrun = len(self._buffer) > self._limit
            return []
        *complete, rest = self._buffer.split(b"\n\n")
        events = [bytes(event) + b"\n\n" for event in complete]
        self._buffer = rest
        too_large = next((index for index, event in enumerate(events) if len(event) > self._limit), None)
        self.overrun = too_large is not None or len(rest) > self._limit
        return events if too_large is None else events[:too_large]

    def feed_whole(self, chunk: bytes) -> bytes:
        """Add a chunk and return the complete events as one piece, for a stream that is not inspected."""
        if self.overrun:
            return b""
        if not self._buffer and (end := _find_last_end(chunk, 0)) == len(chunk):
            return chunk
        end = _find_last_end(self._buffer, self._append(chunk))
        complete = bytes(self._buffer[:end])
        del self._buffer[:end]
        self.overrun = len(self._buffer) > self._limit
        return complete

    def _append(self, chunk: bytes) -> int:
        """Add a chunk. Return where the next search starts, as two chunks may share one event end."""
        start = max(0, len(self._buffer) - 3)
        self._buffer += chunk
        self._has_carriage_returns = self._has_carriage_returns or b"\r" in chunk
        return start

    @property
    def rest(self) -> bytes:
        """The bytes after the last complete event."""
        return bytes(self._buffer)


def _find_last_end(data: bytes | bytearray, start: int) -> int:
    """Return the end of the last complete event, or 0 if there is none."""
    last = 0
    for end in _ENDS:
        index = data.rfind(end, max(start, last))
        if index >= 0:
            last = index + len(end)
    return last


def get_event_data(event: bytes) -> bytes | None:
    """Return the data of an event, or None if it has none, as comments and heartbeats do."""
    if event.startswith(b"data: ") and event.endswith(b"\n\n") and len(event.splitlines()) == 2:
        return event[6:-2] or None
    values = [
        _get_field_value(line) for line in _LINES.split(event) if line == b"data" or line.startswith(b"data:")
    ]
    return b"\n".join(values) or None


def decode_events(stream: bytes) -> list[Any]:
    """Return the decoded data of all events of a stream. Raises msgspec.DecodeError."""
    boundaries = stream.count(b"}\n\ndata: {")
    is_plain = stream.startswith(b"data: {") and stream.endswith(b"}\n\n") and b"\r" not in stream
    if is_plain and stream.count(b"\n") == 2 * (1 + boundaries):
        # Each line is one object: two lines cannot be halves of one, because there is no comma between them.
        documents: list[Any] = _decoder.decode_lines(stream[6:-2].replace(b"\n\ndata: ", b"\n"))
        if len(documents) == 1 + boundaries:
            return documents
    events = EventSplitter(limit=len(stream)).feed(stream)
    return [_decoder.decode(data) for data in map(get_event_data, events) if data is not None]


def encode_event(document: Any) -> bytes:
    """Return the document as one event."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def replace_data(event: bytes, document: Any) -> bytes:
    """Return the event with other data.

    Keeps only lines that cannot carry content: numeric ids and retry times, and standard event names.
    """
    kept = [line for line in _LINES.split(event) if _SAFE_LINE.fullmatch(line)]
    return b"".join(line + b"\n" for line in kept) + encode_event(document)


def _get_field_value(line: bytes) -> bytes:
    value = line[5:]
    return value[1:] if value.startswith(b" ") else value
