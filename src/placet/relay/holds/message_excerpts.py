"""Build the excerpts of a held message that a reviewer sees, within a size limit."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.ports.detector import Scannable
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.a2a.text_normalization import normalize_text
from placet.relay.policy.finding import Finding
from placet.text.characters import replace_unstorable
from placet.text.truncation import truncate

MAX_TEXTS = 20_000
MAX_MARKS = 500
MAX_DATA_PARTS = 5_000
MAX_DATA_DEPTH = 20
MARK_CONTEXT = 400
"""Characters shown on both sides of a finding if the text is too long to be shown whole."""
MAX_OPENING_LENGTH = 2_000
MAX_LABEL_LENGTH = 200
_DATA = re.compile(r"\.(?:parts|content)\[\d+\]\.data(?:\W|$)")

MarkedSpan = tuple[int, int, Finding]


def excerpt_texts(
    pieces: Sequence[Scannable], findings: Iterable[Finding], *, room: int, shows_data: bool = False
) -> dict[str, Any]:
    """Return the texts with their marks in about `room` bytes of JSON, and the number of omitted texts.

    Texts with findings come first; long texts are cut to excerpts. Ids, and texts of data parts that are
    shown as data, are included only if they have findings.
    """
    marks = _group_marks(pieces, findings)
    optional = {
        index
        for index, piece in enumerate(pieces)
        if is_identifier(piece) or (shows_data and is_in_data_part(piece))
    }
    relevant = [index for index in range(len(pieces)) if index in marks or index not in optional]
    order = sorted(relevant, key=lambda index: (index not in marks, index))
    shown: dict[int, dict[str, Any]] = {}
    left = room
    for count, index in enumerate(order):
        piece = pieces[index]
        if count >= MAX_TEXTS or left <= 0:
            break
        entry = _build_text_entry(piece, marks.get(index, []), left)
        left -= len(msgspec.json.encode(entry))
        shown[index] = entry
    return {
        "texts": [shown[index] for index in sorted(shown)],
        "texts_left_out": len(relevant) - len(shown),
    }


def is_in_data_part(piece: Scannable) -> bool:
    """Return whether the text is in a data part that is shown as data."""
    return not piece.path.startswith("history[") and _DATA.search(piece.path) is not None


def is_identifier(piece: Scannable) -> bool:
    """Return whether the text is an id or another fixed value that masks must not change."""
    return isinstance(piece, TextPiece) and piece.role == "fixed"


def excerpt_data(parts: Sequence[Any] | None, *, room: int) -> dict[str, Any]:
    """Return the data parts that fit in about `room` bytes of JSON, and the number of omitted parts."""
    shown: list[Any] = []
    left = room
    for part in parts or ():
        plain = _clean_value(part, MAX_DATA_DEPTH)
        left -= len(msgspec.json.encode(plain))
        if left < 0 or len(shown) >= MAX_DATA_PARTS:
            break
        shown.append(plain)
    return {"data": shown, "data_left_out": len(parts or ()) - len(shown)}


def _clean_value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict | list) and levels == 0:
        return replace_unstorable(msgspec.json.encode(value).decode())
    if isinstance(value, dict):
        return {replace_unstorable(str(name)): _clean_value(item, levels - 1) for name, item in value.items()}
    return [_clean_value(item, levels - 1) for item in value] if isinstance(value, list) else value


def format_label(text: str) -> str:
    """Return an untrusted name on one line, without unstorable characters and not too long."""
    return truncate(" ".join(replace_unstorable(text).split()), MAX_LABEL_LENGTH)


def _group_marks(pieces: Sequence[Scannable], findings: Iterable[Finding]) -> dict[int, list[MarkedSpan]]:
    """Return the marks by index of the text. A finding of zero width marks the whole text."""
    found: dict[int, list[MarkedSpan]] = {}
    for count, finding in enumerate(findings):
        if count >= MAX_MARKS:
            break
        if not 0 <= finding.piece < len(pieces):
            continue
        start, end = finding.start, finding.end
        if start == end:
            start, end = 0, len(pieces[finding.piece].text)
        found.setdefault(finding.piece, []).append((start, end, finding))
    return {index: sorted(marks, key=lambda mark: mark[:2]) for index, marks in found.items()}


def _build_text_entry(piece: Scannable, marks: Sequence[MarkedSpan], room: int) -> dict[str, Any]:
    text = replace_unstorable(piece.text)
    fits = len(text.encode("utf-8", "replace")) <= room
    spans = [(0, len(text))] if fits else _choose_windows(len(text), marks, room)
    return {
        "path": format_label(piece.path),
        "length": len(text),
        "excerpts": [_build_excerpt(text, start, end, marks) for start, end in spans],
    }


def _describe_entity(finding: Finding) -> str:
    """Return the entity of a finding, with the plain reading of a text in disguised characters."""
    reading = normalize_text(finding.text)
    return finding.entity if reading is None else f"{finding.entity} → {reading}"


def _choose_windows(length: int, marks: Sequence[MarkedSpan], room: int) -> list[tuple[int, int]]:
    """Return the spans of a long text to show: its beginning and the surroundings of each finding."""
    wanted = [(0, min(length, MAX_OPENING_LENGTH, max(room // 8, 100)))]
    wanted += [(max(0, start - MARK_CONTEXT), min(length, end + MARK_CONTEXT)) for start, end, _ in marks]
    joined: list[tuple[int, int]] = []
    left = room // 4  # a character may take four bytes
    for start, last in wanted:
        end = min(last, start + max(left, 0))
        if end <= start:
            break
        if joined and start <= joined[-1][1]:
            left -= max(0, end - joined[-1][1])
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            left -= end - start
            joined.append((start, end))
    return joined


def _build_excerpt(text: str, start: int, end: int, marks: Sequence[MarkedSpan]) -> dict[str, Any]:
    inside = [
        {
            "start": max(first, start) - start,
            "end": min(last, end) - start,
            "entity": format_label(_describe_entity(finding)),
            "policy": format_label(finding.policy_name),
            "action": str(finding.action),
        }
        for first, last, finding in marks
        if first < end and last > start
    ]
    return {"at": start, "text": text[start:end], "marks": inside}
