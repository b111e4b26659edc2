"""The parts of an artifact that the reviewer can edit on the page, and the resulting edits.

Edits name the fields of the artifact that changed, each with its whole new value: `{**artifact, **edits}` is
the artifact as the reviewer wants it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from placet.reviews.page_form import format_value, is_editable_text, is_form_name, may_be_thousands

MAX_TOTAL_LENGTH = 50_000
MAX_FIELD_BYTES = 100_000
MAX_PARTS = 40
MAX_DEPTH = 8
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)

ValuePath = tuple[str | int, ...]


class Part(Struct, frozen=True, kw_only=True):
    """One text, number or boolean of an artifact, and its path."""

    path: ValuePath
    value: str | int | float | bool

    @property
    def name(self) -> str:
        """The name in the form: a JSON pointer without its first slash."""
        return "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in self.path)

    def read(self, typed: str, grouping: str | None = None) -> Any:
        """Return the typed text converted to this part's type, or the text itself if that fails."""
        if typed == format_value(self.value):
            return self.value
        if isinstance(self.value, bool):
            return typed.strip() == "true"
        if isinstance(self.value, str):
            return typed
        return typed if may_be_thousands(typed, grouping) else _parse_number(typed.strip())

    def is_not_a_number(self, value: Any) -> bool:
        """Whether the value is text although the original is not."""
        return isinstance(value, str) and not isinstance(self.value, str)


class Parts(Struct, frozen=True, kw_only=True):
    """The editable parts, and whether they cover the whole artifact."""

    root: Mapping[str, Any] = {}
    parts: tuple[Part, ...] = ()
    complete: bool = True

    def collect_edits(self, typed: Mapping[str, str], grouping: str | None = None) -> dict[str, Any]:
        """Return the fields of the artifact that changed, with their new values."""
        edits: dict[str, Any] = {}
        for part in self.parts:
            value = part.read(typed[part.name], grouping) if part.name in typed else part.value
            if value != part.value:
                _set_value(edits, self.root, part.path, value)
        return edits

    def find_value(self, part: Part, edits: object) -> Any:
        """Return the part's value after these edits."""
        found: Any = edits
        for step in part.path:
            inside = found if isinstance(found, Mapping) else dict(enumerate(_as_list(found)))
            if step not in inside:
                return part.value
            found = inside[step]
        return found if isinstance(found, str | int | float) else part.value


def list_editable_fields(source: str, artifact: Any) -> Mapping[str, Any]:
    """Return the fields of an artifact that edits can name; a plain value is one field named `source`."""
    return artifact if isinstance(artifact, Mapping) else {source: artifact}


def find_parts(source: str, artifact: Any) -> Parts:
    """Return the editable parts of an artifact."""
    root = list_editable_fields(source, artifact)
    parts: list[Part] = []
    room, complete = MAX_TOTAL_LENGTH, True
    for path, value in _list_small_leaves(root):
        if len(parts) == MAX_PARTS:
            return Parts(root=root, parts=tuple(parts), complete=False)
        size = len(value) if isinstance(value, str) else 0
        if value is None or size > room or not _is_editable(path, value):
            complete = False
            continue
        room -= size
        parts.append(Part(path=path, value=value))
    return Parts(root=root, parts=tuple(parts), complete=complete)


def _list_small_leaves(root: Mapping[str, Any]) -> Iterator[tuple[ValuePath, Any]]:
    """Yield every leaf with its path; the value is None for a field that is too large to edit."""
    for key, value in root.items():
        containers = isinstance(value, Mapping | list | tuple)
        if containers and len(msgspec.json.encode(value)) > MAX_FIELD_BYTES:
            yield (key,), None
        else:
            yield from _list_leaves((key,), value)


def _list_leaves(path: ValuePath, value: Any) -> Iterator[tuple[ValuePath, Any]]:
    inner: Any = ()
    if len(path) < MAX_DEPTH:
        inner = value.items() if isinstance(value, Mapping) else enumerate(_as_list(value))
    elif isinstance(value, Mapping | list | tuple):
        value = None
    has_parts = False
    for step, part in inner:
        has_parts = True
        yield from _list_leaves((*path, step), part)
    if not has_parts and not isinstance(value, Mapping | list | tuple):
        yield path, value


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _is_editable(path: ValuePath, value: Any) -> bool:
    # A form does not return a name with a line end or a hidden character unchanged.
    named = all(isinstance(step, int) or is_form_name(step) for step in path)
    return named and (not isinstance(value, str) or is_editable_text(value))


def _parse_number(text: str) -> Any:
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _set_value(edits: dict[str, Any], root: Mapping[str, Any], path: ValuePath, value: Any) -> None:
    if path[0] not in edits:
        edits[str(path[0])] = msgspec.to_builtins(root[str(path[0])])
    target: Any = edits
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
