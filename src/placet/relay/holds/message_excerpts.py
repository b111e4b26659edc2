"""Build the bounded excerpts of a held message that a reviewer sees."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.ports.detector import Scannable
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.a2a.text_normalization import normalize_text
from placet.relay.policies.finding import Finding
from placet.text.characters import replace_unstorable
from placet.text.truncation import truncate

MAX_TEXTS = 200
MAX_MARKS = 500
MAX_DATA_PARTS = 50
MAX_DATA_DEPTH = 20
MARK_CONTEXT = 400
"""So many characters on both sides of a finding are shown of a text that is too long to be shown whole."""
MAX_OPENING = 2_000
MAX_LABEL = 200
_DATA = re.compile(r"\.(?:parts|content)\[\d+\]\.data(?:\W|$)")

Mark = tuple[int, int, Finding]


def excerpt_texts(
    pieces: Sequence[Scannable], findings: Iterable[Finding], *, room: int, data_shown: bool = False
) -> dict[str, Any]:
    """The texts with their marks, in at most about so many bytes of JSON; what is left out is counted.

    Texts in which something was found come whole before the others do, and in excerpts if need be. What is
    shown as data need not be shown once more, unless something was found in it.
    """
    marks = _group_marks(pieces, findings)
    aside = {
        place
        for place, piece in enumerate(pieces)
        if is_identifier(piece) or (data_shown and is_in_data_part(piece))
    }
    told = [place for place in range(len(pieces)) if place in marks or place not in aside]
    order = sorted(told, key=lambda place: (place not in marks, place))
    shown: dict[int, dict[str, Any]] = {}
    left = room
    for count, place in enumerate(order):
        piece = pieces[place]
        if count >= MAX_TEXTS or left <= 0:
            break
        entry = _build_text_entry(piece, marks.get(place, []), left)
        left -= len(msgspec.json.encode(entry))
        shown[place] = entry
    return {
        "texts": [shown[place] for place in sorted(shown)],
        "texts_left_out": len(told) - len(shown),
    }


def is_in_data_part(piece: Scannable) -> bool:
    """Whether it stands in a data part."""
    return _DATA.search(piece.path) is not None


def is_identifier(piece: Scannable) -> bool:
    """Whether it is shown only if something was found in it."""
    return isinstance(piece, TextPiece) and piece.role == "fixed"


def excerpt_data(parts: Sequence[Any] | None, *, room: int) -> dict[str, Any]:
    """The data parts as they are, as many as fit in about so many bytes; what is left out is counted."""
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
        return "…"
    if isinstance(value, dict):
        return {replace_unstorable(str(name)): _clean_value(item, levels - 1) for name, item in value.items()}
    return [_clean_value(item, levels - 1) for item in value] if isinstance(value, list) else value


def format_label(text: str) -> str:
    """A name from outside, as it can stand in a line."""
    return truncate(" ".join(replace_unstorable(text).split()), MAX_LABEL)


def _group_marks(pieces: Sequence[Scannable], findings: Iterable[Finding]) -> dict[int, list[Mark]]:
    """By the number of the text, where something was found in it; a finding without width marks all of it."""
    found: dict[int, list[Mark]] = {}
    for count, finding in enumerate(findings):
        if count >= MAX_MARKS:
            break
        if not 0 <= finding.piece < len(pieces):
            continue
        start, end = finding.start, finding.end
        if start == end:
            start, end = 0, len(pieces[finding.piece].text)
        found.setdefault(finding.piece, []).append((start, end, finding))
    return {place: sorted(marks, key=lambda mark: mark[:2]) for place, marks in found.items()}


def _build_text_entry(piece: Scannable, marks: Sequence[Mark], room: int) -> dict[str, Any]:
    text = replace_unstorable(piece.text)
    whole = len(text.encode("utf-8", "replace")) <= room
    spans = [(0, len(text))] if whole else _choose_windows(len(text), marks, room)
    return {
        "path": format_label(piece.path),
        "length": len(text),
        "excerpts": [_build_excerpt(text, start, end, marks) for start, end in spans],
    }


def _describe_entity(finding: Finding) -> str:
    """What was found, and how it reads if nobody could tell from what stands there."""
    reading = normalize_text(finding.text)
    return finding.entity if reading is None else f"{finding.entity} → {reading}"


def _choose_windows(length: int, marks: Sequence[Mark], room: int) -> list[tuple[int, int]]:
    """What is shown of a long text: its beginning, and what surrounds a finding, as far as there is room."""
    wanted = [(0, min(length, MAX_OPENING, max(room // 8, 100)))]
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


def _build_excerpt(text: str, start: int, end: int, marks: Sequence[Mark]) -> dict[str, Any]:
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
