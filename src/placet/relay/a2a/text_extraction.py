"""Read every text of a message that a detector must see, also in files, and write texts back."""

import base64
import binascii
import codecs
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from placet.ports.detector import Scannable
from placet.relay.a2a.dialects import ROLES, STATES
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import CONTEXT_ID, MESSAGE_ID, REFERENCES, TASK_ID, Json
from placet.relay.a2a.text_folding import compile_re2
from placet.relay.a2a.text_normalization import ALTERNATE_READING

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_STANDARD = str.maketrans("-_", "+/")
_BASE64_DATA = re.compile(r";base64,([A-Za-z0-9+/_=-]+)", re.IGNORECASE)
MAX_MEDIA_TYPE_LENGTH = 200
"""The maximum number of characters between `data:` and the content of a data URL in a text."""
# Beginnings of PDF, ZIP, PNG, JPEG, GIF, gzip, OLE, RTF, bzip2, xz and 7z files in base64.
_BINARY_STARTS = r"JVBERi0|UEsDB|iVBORw0KGgo|/9j/|R0lGOD|H4sI[A-Za-f]|0M8R4KGx|e1xydG|QlpoO|/Td6WFo|N3q8ryc"
MIN_FILE_CHARACTERS = 1_024
"""The minimum length of base64 in a text that may be an unknown file. Shorter ones are often keys."""
_LINE = "[A-Za-z0-9+/_-]{40,}={0,2}"
_LINES = rf"{_LINE}(?:\s{{1,4}}{_LINE})*(?:\s{{1,4}}[A-Za-z0-9+/_-]{{1,39}}={{0,2}})?"
_EMBEDDED = re.compile(
    rf"(?<![A-Za-z0-9+/_-])"
    rf"(?:(?P<known>(?:{_BINARY_STARTS})[A-Za-z0-9+/_-]{{18,}}={{0,2}})|(?P<unknown>{_LINES}))"
)
_may_embed: Any = compile_re2(rf"{_BINARY_STARTS}|[A-Za-z0-9+/_-]{{40}}").search
_PAGE_PREFIXES = ("%PDF-", "%!PS", "{\\rtf")
PROBE_CHARACTERS = 1024
"""The number of characters to decode first. They identify most binary files without decoding the rest."""

MAX_DEPTH = 64
MAX_TEXTS = 50_000
MIN_EMBEDDED_LENGTH = 24
"""The minimum length of a text that may contain a file in base64."""
MAX_PATH_LENGTH = 300
MAX_PATH_STEP_LENGTH = 60
# Ids and type names. A sender can put any text into them, so they are collected unless the value is routine.
STRUCTURE_FIELDS = frozenset(
    {"kind", "role", "mimeType", "mime_type", "mediaType", "media_type", "extensions"}
    | {"artifactId", "artifact_id", *TASK_ID, *CONTEXT_ID, *MESSAGE_ID, *REFERENCES}
)
FILE_FIELDS = frozenset({"bytes", "raw", "fileWithBytes", "file_with_bytes"})
FILE_NAME_FIELDS = ("filename", "name")
MEDIA_TYPE_FIELDS = ("mediaType", "media_type", "mimeType", "mime_type")
FREE_FORM_FIELDS = frozenset({"data", "metadata"})
# Fields of a message or artifact with content, besides the free-form ones.
CONTENT_FIELDS = frozenset(
    {"text", "name", "filename", "description", "uri", "url", "fileWithUri", "file_with_uri", *FILE_FIELDS}
)
# Every field name that a dialect defines in a message, reply or error. Other names are content.
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
"""Matches escapes, numbers other than ordinary integers, data URLs, and names of file fields."""
CANNOT_MASK = "A finding is in a field that cannot be masked, such as an id."


def is_page_description(text: str) -> bool:
    """Whether a text is PDF, PostScript or RTF source, which may not contain the text that its page shows."""
    return text.lstrip("\ufeff \t\r\n").startswith(_PAGE_PREFIXES)


def decode_text_file(content: str) -> str | None:
    """Return the text of a file, or None if it is not base64 or not UTF-8 text.

    Accepts both base64 alphabets, with or without padding, and ignores other characters, because some
    decoders do.
    """
    plain = _NOT_BASE64.sub("", content.translate(_STANDARD))
    try:
        if _decode_text(_decode_base64(plain[:PROBE_CHARACTERS]), final=False) is None:
            return None
        return _decode_text(_decode_base64(plain), final=True) or None
    except (binascii.Error, ValueError):
        return None


def decode_data_url(url: str) -> str | None:
    """Return the text of the file in a `data:` URL, or None if it is not text."""
    media_type, _, content = url.partition(",")
    plain = unquote(content)
    return decode_text_file(plain) if media_type.strip().lower().endswith("base64") else plain or None


def decode_file_bytes(content: str) -> bytes | None:
    """Return the bytes of a file in base64 or in a `data:` URL, or None if they cannot be decoded.

    Reads base64 as `decode_text_file` does.
    """
    if content[:5].lower() == "data:":
        media_type, _, encoded = content.partition(",")
        content = unquote(encoded)
        if not media_type.strip().lower().endswith("base64"):
            return content.encode("utf-8", "replace")
    try:
        return _decode_base64(_NOT_BASE64.sub("", content.translate(_STANDARD)))
    except (binascii.Error, ValueError):
        return None


def find_data_urls(text: str) -> list[str]:
    """Return the base64 content of all `data:` URLs in a text, such as images in Markdown."""
    if "ase64," not in text and "ASE64," not in text:
        return []
    return [
        found[1]
        for found in _BASE64_DATA.finditer(text)
        if "data:" in text[max(0, found.start() - MAX_MEDIA_TYPE_LENGTH) : found.start()].lower()
    ]


def find_embedded_files(text: str) -> list[str]:
    """Return the base64 in a text that is probably a file that is not text."""
    if _may_embed(text.encode("utf-8", "replace")) is None:
        return []
    return [
        found[0]
        for found in _EMBEDDED.finditer(text)
        if (found["known"] is not None or len(found[0]) >= MIN_FILE_CHARACTERS)
        and ((decoded := decode_text_file(found[0])) is None or is_page_description(decoded))
    ]


def encode_text_file(text: str) -> str:
    """Return the text as a file in base64."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _decode_base64(plain: str) -> bytes:
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def _decode_text(data: bytes, *, final: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=final)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


_METADATA, _NAME, _TEXT = b'"metadata":', b'"name":', b'"text":'
_decode_flat = msgspec.json.Decoder(dict[str, str | int | float | bool | None]).decode
_find_unplain: Any = compile_re2(
    rf'{ALTERNATE_READING}|"(?:data|filename|description|uri|url|fileWithUri|file_with_uri)":'
).search

PieceRole = Literal["value", "number", "key", "file", "fixed"]


class TextPiece(Scannable, frozen=True):
    """One text of a message with its path and role: a value, a JSON number, a key, a file, or fixed.

    A `fixed` text, such as an id, is scanned but cannot be replaced.
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
    name: str | None = None
    """The file name that the sender gave."""
    media_type: str | None = None
    """The media type that the sender gave."""


class TextCollector:
    """Collects the texts of a document in order, and its content that is not text."""

    def __init__(self) -> None:
        self.locations: list[TextLocation] = []
        self.unreadable: list[UnreadableContent] = []

    def collect(self, holder: Json, name: str, path: str, *, except_for: Iterable[str] = ()) -> None:
        """Collect the texts of one field of an object.

        The members in `except_for` are collected as identifiers. Raises A2AError if the value is nested too
        deep or has too many texts.
        """
        value = holder.get(name)
        if isinstance(value, dict) and name not in FREE_FORM_FIELDS:
            for member in value:
                if member in except_for:
                    if not is_routine_value(value[member]):
                        self.collect_identifier(value, member, _extend_path(path, f".{member}"))
                else:
                    self._collect_member(value, member, path, free_form=False, depth=1)
        else:
            self._collect(value, holder, name, path, free_form=name in FREE_FORM_FIELDS, depth=0)

    def collect_other_members(self, holder: Json, path: str, *, except_for: Iterable[str]) -> None:
        """Collect the texts of all members of an object except the given ones."""
        for name in holder:
            if name not in except_for:
                self._collect_member(holder, name, path, free_form=False, depth=1)

    def collect_identifier(self, holder: Json, name: str, path: str) -> None:
        """Collect an id or a protocol constant as fixed text, unless its value is routine."""
        value = holder.get(name)
        if not is_routine_value(value):
            self._collect(value, holder, name, path, free_form=True, depth=1, role="fixed")

    def collect_extra(self, text: str, path: str) -> None:
        """Collect a text that is not part of the document, such as a header."""
        if not is_routine_value(text):
            self._add(TextLocation(TextPiece(path, text, "fixed"), None, path))

    def collect_item(self, holder: list[Any], index: int, path: str) -> None:
        """Collect the texts of one item of a list."""
        self._collect(holder[index], holder, index, path, free_form=False, depth=0)

    def _collect(
        self,
        value: Any,
        holder: Any,
        key: str | int,
        path: str,
        *,
        free_form: bool,
        depth: int,
        role: PieceRole = "value",
    ) -> None:
        """Collect the texts of a value. If it is free-form, as below `data`, its keys are texts as well."""
        if depth > MAX_DEPTH:
            raise A2AError("params", f"The message is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, str):
            if value:
                self._add(TextLocation(TextPiece(path, value, role), holder, key))
                if value[:5].lower() == "data:":
                    self._collect_data_url(value, holder, key, path)
        elif isinstance(value, int | float):
            if not isinstance(value, bool):  # a card number may be sent as a JSON number
                of_number: PieceRole = "number" if role == "value" else role
                self._add(TextLocation(TextPiece(path, format_number(value), of_number), holder, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                location = _extend_path(path, f"[{index}]")
                self._collect(item, value, index, location, free_form=free_form, depth=depth + 1, role=role)
        elif isinstance(value, dict):
            for name in value:
                self._collect_member(value, name, path, free_form=free_form, depth=depth + 1)

    def _collect_member(self, holder: Json, name: str, path: str, *, free_form: bool, depth: int) -> None:
        item = holder[name]
        location = _extend_path(path, f".{name[:MAX_PATH_STEP_LENGTH]}")
        if free_form or name not in FIELD_NAMES:
            self._add(TextLocation(TextPiece(location, name, "key"), holder, name))
        elif name in SPECIAL_FIELDS:
            if name in FILE_FIELDS and isinstance(item, str):
                self._collect_file(holder, name, location)
                return
            if name in STRUCTURE_FIELDS and not isinstance(item, dict):
                if not is_routine_value(item):
                    self.collect_identifier(holder, name, location)
                return
            free_form = name in FREE_FORM_FIELDS
        # Fast path: most members are plain strings.
        if type(item) is str and depth <= MAX_DEPTH and ":" not in item[:5]:
            if item:
                self._add(TextLocation(TextPiece(location, item), holder, name))
            return
        self._collect(item, holder, name, location, free_form=free_form, depth=depth)

    def _collect_data_url(self, value: str, holder: Any, key: str | int, path: str) -> None:
        self._collect_file_text(
            decode_data_url(value), value, TextLocation(TextPiece(path, "", "fixed"), holder, key)
        )

    def _collect_file(self, holder: Json, name: str, path: str) -> None:
        content = holder[name]
        self._collect_file_text(
            decode_text_file(content), content, TextLocation(TextPiece(path, "", "file"), holder, name)
        )

    def _collect_file_text(self, text: str | None, content: str, location: TextLocation) -> None:
        piece = location.piece
        if text is None or is_page_description(text):
            name, media_type = _get_file_labels(location.holder)
            self.unreadable.append(UnreadableContent(piece.path, content, name, media_type))
        if text is not None:
            self._add(location._replace(piece=TextPiece(piece.path, text, piece.role)))

    def _add(self, location: TextLocation) -> None:
        if len(self.locations) >= MAX_TEXTS:
            raise A2AError("params", f"The message has more than {MAX_TEXTS} texts.")
        self.locations.append(location)
        piece = location.piece
        if piece.text[:5].lower() != "data:":  # `_collect_data_url` decodes a text that is a data URL
            urls = find_data_urls(piece.text)
            if not urls and len(piece.text) >= MIN_EMBEDDED_LENGTH:
                files = find_embedded_files(piece.text)
                self.unreadable += (UnreadableContent(piece.path, content) for content in files)
            for content in urls:
                if (text := decode_text_file(content)) is None or is_page_description(text):
                    self.unreadable.append(UnreadableContent(piece.path, content))


def has_no_file(text: str) -> bool:
    """Whether a text contains no file. May be False without need."""
    if ":" in text and "data:" in text.lower():
        return False
    return len(text) < MIN_EMBEDDED_LENGTH or not find_embedded_files(text)


def _get_file_labels(holder: Any) -> tuple[str | None, str | None]:
    """Return the name and the media type beside the content of a file, in the spelling of any dialect."""
    fields = holder if isinstance(holder, dict) else {}
    labels = [
        next((fields[name] for name in names if isinstance(fields.get(name), str)), None)
        for names in (FILE_NAME_FIELDS, MEDIA_TYPE_FIELDS)
    ]
    return labels[0], labels[1]


def replace_texts(document: Json, locations: Sequence[TextLocation], texts: Sequence[str]) -> Json:
    """Return a copy of the document with `texts` at these locations.

    A changed number becomes a string. Raises A2AError if a fixed text would change, or if an object would
    get two members of the same name.
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
    new_values = values.get(id(value), {})
    if isinstance(value, list):
        return [
            new_values[index] if index in new_values else _rewrite(item, values, names)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    new_names = names.get(id(value), {})
    rewritten = {
        new_names.get(name, name): new_values[name] if name in new_values else _rewrite(item, values, names)
        for name, item in value.items()
    }
    if len(rewritten) != len(value):
        raise A2AError("params", "Masking would give an object two members of the same name.")
    return rewritten


def build_plain_json(encoded: bytes) -> bytes | None:
    """Return bytes that a detector can scan instead of each text of this JSON, or None if it cannot.

    The JSON must be small, not nested too deep, have at most one text part, one name and one flat `metadata`,
    no other contents that are scanned joined, and no text with an alternate reading. These three are
    appended, joined in each order in which they are scanned. The caller must also check that `UNUSUAL_JSON`
    does not match. It does so in the same pass as its own scan, because a second pass would double the time.
    """
    if (
        len(encoded) > MAX_PLAIN_BYTES
        or encoded.count(b'"text"') > 1
        or encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH
        or _find_unplain(encoded) is not None
    ):
        return None
    name = _find_value(encoded, _NAME)
    metadata = _find_metadata(encoded)
    if name is None or metadata is None:
        return None
    if not name and not metadata:
        return encoded
    text = _find_value(encoded, _TEXT) or b""
    at, name_at, metadata_at = encoded.find(_TEXT), encoded.find(_NAME), encoded.find(_METADATA)
    if at < metadata_at < name_at:
        return None
    joined = b"%b%b%b%b" % (metadata, name, text, metadata)
    if name_at > at:
        joined += b'","%b%b%b%b' % (metadata, text, name, metadata)
    if name and 0 <= metadata_at < at:
        joined += b'","%b%b%b' % (name, metadata, text)
    return b'%b"%b"' % (encoded, joined)


def _find_value(encoded: bytes, name: bytes) -> bytes | None:
    """Return the value of the only member of this name, empty if it is missing; None if it is no text.

    The JSON must not contain escapes.
    """
    start = encoded.find(name)
    if start < 0:
        return b""
    start += len(name)
    end = encoded.find(b'"', start + 1)
    is_text = encoded[start : start + 1] == b'"' and end >= 0 and encoded.find(name, end) < 0
    return encoded[start + 1 : end] if is_text else None


def _find_metadata(encoded: bytes) -> bytes | None:
    """Return the joined values of the only `metadata`, empty if it is missing; None if it is not flat."""
    start = encoded.find(_METADATA)
    if start < 0:
        return b""
    start += len(_METADATA)
    end = encoded.find(b"}", start) + 1
    if encoded.find(_METADATA, end) >= 0:
        return None
    try:
        values = _decode_flat(encoded[start:end]).values()
    except msgspec.MsgspecError:
        return None
    return "".join(
        value if isinstance(value, str) else format_number(value)
        for value in values
        if value is not None and not isinstance(value, bool)
    ).encode()


def is_routine_value(value: Any) -> bool:
    """Whether a value cannot carry content: a protocol constant, UUID, timestamp or small number."""
    if isinstance(value, str):
        return value in ROUTINE_VALUES or bool(_UUID.fullmatch(value)) or bool(_TIMESTAMP.fullmatch(value))
    if isinstance(value, list):
        return all(isinstance(item, str) and is_routine_value(item) for item in value)
    return value is None or (isinstance(value, int) and 0 <= value <= MAX_ROUTINE_NUMBER)


def format_number(number: int | float) -> str:
    """Return the number as text for detectors."""
    try:
        return str(number)
    except ValueError:  # Python does not convert integers of more than 4,300 digits to decimal
        return hex(int(number))


def _extend_path(path: str, step: str) -> str:
    """Return the extended path. Long paths stop growing, so that paths stay smaller than the message."""
    return path if len(path) > MAX_PATH_LENGTH else path + step
