"""Server-sent events, read from the bytes of a response as they come (the HTML standard's rules)."""

from msgspec import Struct

LONGEST_EVENT = 1024 * 1024


class ServerEvent(Struct, frozen=True, kw_only=True):
    """One event of a stream."""

    name: str
    data: str
    id: str | None = None


class EventReader:
    """Takes bytes in any pieces, gives whole events; `last_id` is what to resume after."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._data: list[str] = []
        self._size = 0
        self.last_id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this piece completes; raises ValueError for one without an end."""
        found = []
        for line in self._whole_lines(chunk):
            event = self._take(line)
            if event is not None:
                found.append(event)
        if len(self._rest) + self._size > LONGEST_EVENT:
            raise ValueError("an event is too long")
        return found

    def _whole_lines(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes; a long line in small pieces is looked at once, at its end."""
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
    """Whole lines, then what is left; a CR at the very end may be half of a line end and waits."""
    waiting = b"\r" if data.endswith(b"\r") else b""
    text = data[: len(data) - len(waiting)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, rest = text.split(b"\n")
    return [*lines, rest + waiting]
