"""Parse server-sent events incrementally (the rules of the HTML standard)."""

from msgspec import Struct

MAX_EVENT_BYTES = 1024 * 1024


class ServerEvent(Struct, frozen=True, kw_only=True):
    """One event of a stream."""

    name: str
    data: str
    id: str | None = None


class EventReader:
    """Parses chunks of bytes into events; `last_id` is the id to resume after."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._data: list[str] = []
        self._size = 0
        self.last_id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that this chunk completes; raises ValueError for an event that is too long."""
        found = []
        for line in self._take_whole_lines(chunk):
            event = self._take(line)
            if event is not None:
                found.append(event)
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise ValueError("an event is too long")
        return found

    def _take_whole_lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes; a line is scanned once, when it is complete."""
        may_end = self._rest.endswith(b"\r") or b"\n" in chunk or b"\r" in chunk
        self._rest += chunk
        if not may_end:
            return []
        *lines, rest = _split_lines(bytes(self._rest))
        self._rest = bytearray(rest)
        return lines

    def _take(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        self._size += len(line)
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name or "message", self._data
        self._name, self._data, self._size = "", [], 0
        return ServerEvent(name=name, data="\n".join(data), id=self.last_id) if data else None


def _split_lines(data: bytes) -> list[bytes]:
    """Return the complete lines and the rest; a CR at the end may be half of a CRLF and stays."""
    waiting = b"\r" if data.endswith(b"\r") else b""
    text = data[: len(data) - len(waiting)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, rest = text.split(b"\n")
    return [*lines, rest + waiting]
