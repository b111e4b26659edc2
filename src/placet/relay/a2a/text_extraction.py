"""Collect every text of a document that could carry content, and replace texts in place."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from placet.ports.detector import Scannable
from placet.relay.a2a.dialects import ROLES, STATES
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.file_content import (
    decode_data_url,
    decode_text_file,
    encode_text_file,
    find_data_urls,
    is_page_description,
)
from placet.relay.a2a.json_fields import CONTEXT_ID, MESSAGE_ID, REFERENCES, TASK_ID, Json
from placet.relay.a2a.text_normalization import has_single_reading

MAX_DEPTH = 64
MAX_TEXTS = 50_000
MAX_PATH = 300
MAX_PATH_STEP = 60

# Structure rather than content: ids and names of types. Who fills them in may write anything there, so they
# are looked at unless they can say no more than that. The content of a file is looked at if it is text.
STRUCTURE_FIELDS = frozenset(
    {"kind", "role", "mimeType", "mime_type", "mediaType", "media_type", "extensions"}
    | {"artifactId", "artifact_id", *TASK_ID, *CONTEXT_ID, *MESSAGE_ID, *REFERENCES}
)
FILE_FIELDS = frozenset({"bytes", "raw", "fileWithBytes", "file_with_bytes"})
FREE_FORM_FIELDS = frozenset({"data", "metadata"})
# All that a dialect has a name for within a message, an answer or an error; other names are somebody's words.
FIELD_NAMES = frozenset(
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
    | STRUCTURE_FIELDS
    | FILE_FIELDS
    | FREE_FORM_FIELDS
)

SPECIAL_FIELDS = STRUCTURE_FIELDS | FILE_FIELDS | FREE_FORM_FIELDS

ROUTINE_VALUES = frozenset(
    {"", "2.0", "text", "data", "file", "task", "message", "status-update", "artifact-update"}
    | {"text/plain", "text/markdown", "text/html", "text/csv", "application/json", "application/pdf"}
    | {"application/octet-stream", "image/png", "image/jpeg", "*/*", *ROLES, *STATES}
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
MAX_ROUTINE_NUMBER = 9_999
MAX_PLAIN_BYTES = 16_384
_FILE_FIELD_PATTERN = "|".join(sorted(FILE_FIELDS))
UNUSUAL_JSON = rf"\\|(?:\":|[,\[])-?(?:[0-9]+[.eE]|[0-9]{{100}})|\"(?i:data):|\"(?:{_FILE_FIELD_PATTERN})\""
"""An escape, a number that is no ordinary whole one, a file in its own address, the name of one."""
CANNOT_MASK = "What was found stands where nothing can be masked, such as in an id."

PieceRole = Literal["value", "key", "file", "fixed"]


class TextPiece(Scannable, frozen=True):
    """One text of a message, where it stands, and whether it is a value, the name of one, or a file.

    A text that is `fixed` holds something together, as ids do: it can be looked at, and not be replaced.
    """

    role: PieceRole = "value"


class TextLocation(NamedTuple):
    """A text piece and the object and key that hold it."""

    piece: TextPiece
    holder: Any
    key: str | int


class UnreadableContent(NamedTuple):
    """Content that is not text, as encoded in the message; no policy can scan it."""

    path: str
    content: str


class TextCollector:
    """Collects the texts of a document in order, and its content that is not text."""

    def __init__(self) -> None:
        self.locations: list[TextLocation] = []
        self.unreadable: list[UnreadableContent] = []

    def collect(self, holder: Json, name: str, path: str, *, except_for: Iterable[str] = ()) -> None:
        """Look at what stands in an object under this name, but for some of its own members.

        Raises A2AError for what is too deep, or too much, to be looked at.
        """
        value = holder.get(name)
        if isinstance(value, dict) and name not in FREE_FORM_FIELDS:
            for member in value:
                if member in except_for:
                    if not is_routine_value(value[member]):
                        self.collect_identifier(value, member, _extend_path(path, f".{member}"))
                else:
                    self._member(value, member, path, free=False, depth=1)
        else:
            self._collect(value, holder, name, path, free=name in FREE_FORM_FIELDS, depth=0)

    def collect_other_members(self, holder: Json, path: str, *, except_for: Iterable[str]) -> None:
        """Look at all members of an object but those that are known: nobody knows what the others are for."""
        for name in holder:
            if name not in except_for:
                self._member(holder, name, path, free=False, depth=1)

    def collect_identifier(self, holder: Json, name: str, path: str) -> None:
        """Look at an id or a word that belongs to the protocol, unless it can say nothing else."""
        value = holder.get(name)
        if not is_routine_value(value):
            self._collect(value, holder, name, path, free=True, depth=1, role="fixed")

    def collect_extra(self, text: str, path: str) -> None:
        """Look at a text that travels beside the document."""
        if not is_routine_value(text):
            self._add(TextLocation(TextPiece(path, text, "fixed"), None, path))

    def collect_item(self, holder: list[Any], index: int, path: str) -> None:
        """Look at one item of a list."""
        self._collect(holder[index], holder, index, path, free=False, depth=0)

    def _collect(
        self,
        value: Any,
        holder: Any,
        key: str | int,
        path: str,
        *,
        free: bool,
        depth: int,
        role: PieceRole = "value",
    ) -> None:
        """Below `data` and `metadata` names are free: none of them is structure, and all of them count."""
        if depth > MAX_DEPTH:
            raise A2AError("params", f"The message is nested more than {MAX_DEPTH} deep.")
        if isinstance(value, str):
            if value:
                self._add(TextLocation(TextPiece(path, value, role), holder, key))
                if value[:5].lower() == "data:":
                    self._address(value, holder, key, path)
        elif isinstance(value, int | float):
            if not isinstance(value, bool):  # a card number may travel as a number
                self._add(TextLocation(TextPiece(path, format_number(value), role), holder, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                location = _extend_path(path, f"[{index}]")
                self._collect(item, value, index, location, free=free, depth=depth + 1, role=role)
        elif isinstance(value, dict):
            for name in value:
                self._member(value, name, path, free=free, depth=depth + 1)

    def _member(self, holder: Json, name: str, path: str, *, free: bool, depth: int) -> None:
        item = holder[name]
        location = _extend_path(path, f".{name[:MAX_PATH_STEP]}")
        if free or name not in FIELD_NAMES:
            self._add(TextLocation(TextPiece(location, name, "key"), holder, name))
        elif name in SPECIAL_FIELDS:
            if name in FILE_FIELDS and isinstance(item, str):
                self._file(holder, name, location)
                return
            if name in STRUCTURE_FIELDS and not isinstance(item, dict):
                if not is_routine_value(item):
                    self.collect_identifier(holder, name, location)
                return
            free = name in FREE_FORM_FIELDS
        if (
            type(item) is str and depth <= MAX_DEPTH and ":" not in item[:5]
        ):  # the short way: most of what there is
            if item:
                self._add(TextLocation(TextPiece(location, item), holder, name))
            return
        self._collect(item, holder, name, location, free=free, depth=depth)

    def _address(self, value: str, holder: Any, key: str | int, path: str) -> None:
        """Look at the file that stands in an address."""
        self._collect_file_text(
            decode_data_url(value), value, TextLocation(TextPiece(path, "", "fixed"), holder, key)
        )

    def _file(self, holder: Json, name: str, path: str) -> None:
        content = holder[name]
        self._collect_file_text(
            decode_text_file(content), content, TextLocation(TextPiece(path, "", "file"), holder, name)
        )

    def _collect_file_text(self, text: str | None, content: str, location: TextLocation) -> None:
        piece = location.piece
        if text is None or is_page_description(text):
            self.unreadable.append(UnreadableContent(piece.path, content))
        if text is not None:
            self._add(location._replace(piece=TextPiece(piece.path, text, piece.role)))

    def _add(self, location: TextLocation) -> None:
        if len(self.locations) >= MAX_TEXTS:
            raise A2AError("params", f"The message holds more than {MAX_TEXTS} texts.")
        self.locations.append(location)
        piece = location.piece
        if piece.text[:5].lower() != "data:":  # that is looked into as a whole
            for content in find_data_urls(piece.text):
                if (text := decode_text_file(content)) is None or is_page_description(text):
                    self.unreadable.append(UnreadableContent(piece.path, content))


def replace_texts(document: Json, locations: Sequence[TextLocation], texts: Sequence[str]) -> Json:
    """The document with other texts in these places of it; the document itself is left alone.

    Where a number stood, a changed one is a text.
    Raises A2AError if a name would stand twice in an object, and for what cannot be replaced.
    """
    values: dict[int, dict[str | int, str]] = {}
    names: dict[int, dict[str, str]] = {}
    for location, text in zip(locations, texts, strict=True):
        if text == location.piece.text:
            continue
        if location.piece.role == "fixed":
            raise A2AError("refused", CANNOT_MASK)
        if location.piece.role == "key":
            names.setdefault(id(location.holder), {})[str(location.key)] = text
        else:
            value = encode_text_file(text) if location.piece.role == "file" else text
            values.setdefault(id(location.holder), {})[location.key] = value
    rewritten: Json = _rewrite(document, values, names)
    return rewritten


def _rewrite(value: Any, values: dict[int, dict[str | int, str]], names: dict[int, dict[str, str]]) -> Any:
    changed = values.get(id(value), {})
    if isinstance(value, list):
        return [
            changed[index] if index in changed else _rewrite(item, values, names)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    renamed = names.get(id(value), {})
    found = {
        renamed.get(name, name): changed[name] if name in changed else _rewrite(item, values, names)
        for name, item in value.items()
    }
    if len(found) != len(value):
        raise A2AError("params", "A name would stand twice in one object.")
    return found


def is_plain_json(encoded: bytes) -> bool:
    """Whether every text of a document stands in its JSON as it is, each between characters of JSON.

    That is so with at most one text that others could be joined to and not nested too deeply, unless there is
    something `UNUSUAL`: escapes, files that would be unpacked, numbers that could be written in another way.
    Nor may a text have another reading, which does not stand there.
    Whoever looks at the JSON as a whole looks for that too: going through it twice would take twice as long.
    """
    return (
        len(encoded) <= MAX_PLAIN_BYTES
        and encoded.count(b'"text"') < 2
        and encoded.count(b"{") + encoded.count(b"[") <= MAX_DEPTH
        and has_single_reading(encoded)
    )


def is_routine_value(value: Any) -> bool:
    """Whether a value in the place of an id, a count or a word of the protocol is no more than that."""
    if isinstance(value, str):
        return value in ROUTINE_VALUES or bool(_UUID.fullmatch(value)) or bool(_TIMESTAMP.fullmatch(value))
    if isinstance(value, list):
        return all(isinstance(one, str) and is_routine_value(one) for one in value)
    return value is None or (isinstance(value, int) and 0 <= value <= MAX_ROUTINE_NUMBER)


def format_number(number: int | float) -> str:
    """A number as it is looked at."""
    try:
        return str(number)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return hex(int(number))


def _extend_path(path: str, step: str) -> str:
    """A deep value has no longer a path than others, or the paths would outgrow the message."""
    return path if len(path) > MAX_PATH else path + step
