"""Every text in which someone could hide something, where it stands, and other texts in its place."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from assent.ports.detector import Scannable
from assent.relay.a2a.files import content_of, text_in
from assent.relay.a2a.problems import A2AProblem
from assent.relay.a2a.reading import CONTEXT_ID, MESSAGE_ID, REFERENCES, TASK_ID, Json

MAX_DEPTH = 64
MOST_TEXTS = 50_000
LONGEST_PATH = 300
LONGEST_STEP = 60

# Structure rather than content: ids and names of types. The content of a file is looked at if it is text.
STRUCTURE = frozenset(
    {"kind", "role", "mimeType", "mime_type", "mediaType", "media_type", "extensions"}
    | {"artifactId", "artifact_id", *TASK_ID, *CONTEXT_ID, *MESSAGE_ID, *REFERENCES}
)
OPAQUE = frozenset({"bytes", "raw", "fileWithBytes", "file_with_bytes"})
FREE = frozenset({"data", "metadata"})
# All that a dialect has a name for within a message, an answer or an error; other names are somebody's words.
NAMES = frozenset(
    {"message", "msg", "request", "parts", "content", "text", "file", "filename", "name", "description"}
    | {"uri", "url", "fileWithUri", "file_with_uri", "task", "tasks", "id", "status", "state", "timestamp"}
    | {"artifact", "artifacts", "history", "append", "lastChunk", "last_chunk", "final", "index"}
    | {
        "statusUpdate",
        "status_update",
        "artifactUpdate",
        "artifact_update",
        "update",
        "result",
        "error",
        "code",
    }
    | {"nextPageToken", "next_page_token", "pageSize", "page_size", "totalSize", "total_size"}
    | {"configuration", "tenant", "jsonrpc", "method", "params", "config", "parent", "details"}
    | {"authentication", "credentials", "scheme", "schemes", "token"}
    | STRUCTURE
    | OPAQUE
    | FREE
)


class Piece(Scannable, frozen=True):
    """One text of a message, where it stands, and whether it is a value, the name of one, or a file."""

    role: Literal["value", "key", "file"] = "value"


class Place(NamedTuple):
    """A text in the very object that holds it."""

    piece: Piece
    holder: Any
    key: str | int


class Texts:
    """The texts of some parts of a document, in order, and what there is besides that is no text."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.opaque: list[str] = []

    def look(self, holder: Json, name: str, path: str, *, leaving: Iterable[str] = ()) -> None:
        """Look at what stands in an object under this name, but for some of its own members.

        Raises A2AProblem for what is too deep, or too much, to be looked at.
        """
        value = holder.get(name)
        if isinstance(value, dict) and name not in FREE:
            for member in value:
                if member not in leaving:
                    self._member(value, member, path, free=False, depth=1)
        else:
            self._collect(value, holder, name, path, free=name in FREE, depth=0)

    def look_at_others(self, holder: Json, path: str, *, leaving: Iterable[str]) -> None:
        """Look at all members of an object but those that are known: nobody knows what the others are for."""
        for name in holder:
            if name not in leaving and name not in STRUCTURE:
                self._member(holder, name, path, free=False, depth=1)

    def look_at(self, holder: list[Any], index: int, path: str) -> None:
        """Look at one item of a list."""
        self._collect(holder[index], holder, index, path, free=False, depth=0)

    def _collect(self, value: Any, holder: Any, key: str | int, path: str, *, free: bool, depth: int) -> None:
        """Below `data` and `metadata` names are free: none of them is structure, and all of them count."""
        if depth > MAX_DEPTH:
            raise A2AProblem("params", f"The message is nested more than {MAX_DEPTH} deep.")
        if isinstance(value, str):
            if value:
                self._add(Place(Piece(path, value), holder, key))
        elif isinstance(value, int | float):
            if not isinstance(value, bool):  # a card number may travel as a number
                self._add(Place(Piece(path, written_number(value)), holder, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._collect(item, value, index, _step(path, f"[{index}]"), free=free, depth=depth + 1)
        elif isinstance(value, dict):
            for name in value:
                self._member(value, name, path, free=free, depth=depth + 1)

    def _member(self, holder: Json, name: str, path: str, *, free: bool, depth: int) -> None:
        item = holder[name]
        place = _step(path, f".{name[:LONGEST_STEP]}")
        if free or name not in NAMES:
            self._add(Place(Piece(place, name, "key"), holder, name))
        elif name in OPAQUE and isinstance(item, str):
            self._file(holder, name, place)
            return
        elif name in STRUCTURE and not isinstance(item, dict):
            return
        self._collect(item, holder, name, place, free=free or name in FREE, depth=depth)

    def _file(self, holder: Json, name: str, path: str) -> None:
        text = text_in(holder[name])
        if text is None:
            self.opaque.append(path)
        else:
            self._add(Place(Piece(path, text, "file"), holder, name))

    def _add(self, place: Place) -> None:
        if len(self.places) >= MOST_TEXTS:
            raise A2AProblem("params", f"The message holds more than {MOST_TEXTS} texts.")
        self.places.append(place)


def with_texts(document: Json, places: Sequence[Place], texts: Sequence[str]) -> Json:
    """The document with other texts in these places of it; the document itself is left alone.

    Where a number stood, a changed one is a text.
    Raises A2AProblem if a name would stand twice in an object.
    """
    values: dict[int, dict[str | int, str]] = {}
    names: dict[int, dict[str, str]] = {}
    for place, text in zip(places, texts, strict=True):
        if text == place.piece.text:
            continue
        if place.piece.role == "key":
            names.setdefault(id(place.holder), {})[str(place.key)] = text
        else:
            value = content_of(text) if place.piece.role == "file" else text
            values.setdefault(id(place.holder), {})[place.key] = value
    rewritten: Json = _rewritten(document, values, names)
    return rewritten


def _rewritten(value: Any, values: dict[int, dict[str | int, str]], names: dict[int, dict[str, str]]) -> Any:
    changed = values.get(id(value), {})
    if isinstance(value, list):
        return [
            changed[index] if index in changed else _rewritten(item, values, names)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    renamed = names.get(id(value), {})
    found = {
        renamed.get(name, name): changed[name] if name in changed else _rewritten(item, values, names)
        for name, item in value.items()
    }
    if len(found) != len(value):
        raise A2AProblem("params", "A name would stand twice in one object.")
    return found


def written_number(number: int | float) -> str:
    """A number as it is looked at."""
    try:
        return str(number)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return hex(int(number))


def _step(path: str, step: str) -> str:
    """A deep value has no longer a path than others, or the paths would outgrow the message."""
    return path if len(path) > LONGEST_PATH else path + step
