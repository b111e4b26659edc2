"""Change values in a JSON text, and keep its layout, its order and its comments. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_REST_OF_LINE = re.compile(r"[ \t]*")
_INDENT = re.compile(r"\n([ \t]+)")
_DECODER = json.JSONDecoder()


class JsonNode(Struct, frozen=True, kw_only=True):
    """A value of a JSON text and its place there."""

    value: Any
    start: int
    end: int
    children: tuple["JsonNode", ...] = ()
    """The members of an object or the items of an array; a member begins with its name."""
    name: str | None = None
    """The name of a member of an object."""
    value_start: int = 0
    """Where the value itself begins."""


class TextEdit(Struct, frozen=True, order=True):
    """One change of a text."""

    start: int
    end: int
    text: str


def parse_json(text: str, *, allows_comments: bool = False) -> Any:
    """Return the value of a JSON text. Raises ValueError also for a name that occurs twice in one object."""
    return json.loads(_blank(text, allows_comments), object_pairs_hook=_refuse_repeated)


def change_json(text: str, value: Any, *, allows_comments: bool = False) -> str:
    """Return the text of a JSON value, changed to another value where the two differ."""
    found = _INDENT.search(text)
    unit = found[1] if found else "  "
    newline = "\r\n" if "\r\n" in text else "\n"
    blank = _blank(text, allows_comments)
    if blank.strip():
        editor = _TextEditor(text, blank, unit)
        editor.change(editor.read(0), value, "")
        changed = text
        for edit in sorted(editor.edits, reverse=True):
            changed = changed[: edit.start] + edit.text.replace("\n", newline) + changed[edit.end :]
        if _is_same(parse_json(changed, allows_comments=allows_comments), value):
            return changed
    return (_format(value, unit, "") + "\n").replace("\n", newline)


class _TextEditor:
    """Reads the places of values in a text without comments, and collects the edits of it."""

    def __init__(self, original: str, text: str, unit: str) -> None:
        self.original = original
        self.text = text
        self.unit = unit
        self.edits: list[TextEdit] = []

    # Reading

    def read(self, at: int) -> JsonNode:
        """Return the value that begins here."""
        at = self._skip_space(at)
        value, end = _DECODER.raw_decode(self.text, at)
        closing = {"{": "}", "[": "]"}.get(self.text[at])
        children = tuple(self._read_children(at, closing)) if closing else ()
        return JsonNode(value=value, start=at, end=end, children=children, value_start=at)

    def _read_children(self, at: int, closing: str) -> Iterator[JsonNode]:
        while self.text[(at := self._skip_space(at + 1))] != closing:
            name, start = None, at
            if closing == "}":
                name, at = _DECODER.raw_decode(self.text, at)
                at = self._skip_space(at) + 1
            node = self.read(at)
            yield JsonNode(
                value=node.value,
                start=start,
                end=node.end,
                children=node.children,
                name=name,
                value_start=node.start,
            )
            at = self._skip_space(node.end)
            if self.text[at] == closing:
                return

    def _skip_space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    # Changing

    def change(self, node: JsonNode, value: Any, indent: str) -> None:
        """Edit the text, so that this node has another value."""
        if _is_same(node.value, value):
            return
        inside = self._find_indent(node, indent)
        if isinstance(node.value, dict) and isinstance(value, dict):
            kept = [child for child in node.children if child.name in value]
            removed = [child for child in node.children if child.name not in value]
            added = [(name, one) for name, one in value.items() if name not in node.value]
            pairs = [(child, value[child.name]) for child in kept]
        elif isinstance(node.value, list) and isinstance(value, list):
            pairs, removed, added = _compare_items(node, value)
        else:
            pairs, removed, added = [], list(node.children), [(None, value)]
        is_container = type(node.value) is type(value) and isinstance(value, dict | list)
        if not is_container or (removed and added) or (not node.value and not added):
            self._replace(node.value_start, node.end, _format(value, self.unit, indent))
            return
        for child, one in pairs:
            self.change(child, one, inside)
        if removed:
            self._remove(node, removed)
        if added:
            self._add(node, added, inside, indent)

    def _replace(self, start: int, end: int, text: str) -> None:
        self.edits.append(TextEdit(start, end, text))

    def _remove(self, node: JsonNode, removed: Sequence[JsonNode]) -> None:
        """Remove children, each with a comma and the space before it."""
        last_kept: JsonNode | None = None
        for child in node.children:
            if not any(child is one for one in removed):
                last_kept = child
                continue
            before = self.original[: child.start].rstrip(" \t")
            start = len(before.removesuffix("\n").removesuffix("\r"))
            after = self._skip_space(child.end)
            end = after + 1 if self.text[after] == "," else child.end
            self._replace(start, end, "")
        if last_kept is not None and last_kept is not node.children[-1]:
            comma = self._skip_space(last_kept.end)
            self._replace(comma, comma + 1, "")

    def _add(self, node: JsonNode, added: Sequence[tuple[str | None, Any]], inside: str, indent: str) -> None:
        """Add children after the last one, and after what follows it on its line."""
        closing = node.end - 1
        last = node.children[-1].end if node.children else node.value_start + 1
        rest = _REST_OF_LINE.match(self.text, last)
        place = min(rest.end() if rest else last, closing)
        lines = [
            f"\n{inside}{'' if name is None else json.dumps(name, ensure_ascii=False) + ': '}"
            f"{_format(value, self.unit, inside)}"
            for name, value in added
        ]
        text = ",".join(lines) + ("" if "\n" in self.text[place:closing] else f"\n{indent}")
        comma = "," if node.children else ""
        if place == last:
            self._replace(place, place, comma + text)
        else:
            self._replace(place, place, text)
            self._replace(last, last, comma)

    def _find_indent(self, node: JsonNode, indent: str) -> str:
        """Return the space before the children of a node."""
        for child in node.children:
            line = self.text[self.text.rfind("\n", 0, child.start) + 1 : child.start]
            if not line.strip() and "\n" in self.text[node.start : child.start]:
                return line
        return indent + self.unit


def _compare_items(
    node: JsonNode, value: list[Any]
) -> tuple[list[tuple[JsonNode, Any]], list[JsonNode], list[tuple[str | None, Any]]]:
    """Return the items of an array that are changed, those that are removed, and those that are added."""
    old, same = node.children, 0
    while same < min(len(old), len(value)) and _is_same(old[same].value, value[same]):
        same += 1
    if len(value) >= len(old):
        return list(zip(old, value, strict=False)), [], [(None, one) for one in value[len(old) :]]
    count = len(old) - len(value)
    return list(zip(old[same + count :], value[same:], strict=True)), list(old[same : same + count]), []


def _blank(text: str, allows_comments: bool) -> str:
    """Return a text of the same length without comments and the byte order mark."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    if not allows_comments:
        return text
    return _STRING_OR_COMMENT.sub(
        lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text
    )


def _format(value: Any, unit: str, indent: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")


def _is_same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found
