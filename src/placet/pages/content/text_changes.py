"""Show what changed between two versions of a text in one object, word by word."""

from collections.abc import Mapping
from typing import Any

from placet.pages.content.markup_writer import MarkupWriter
from placet.pages.diffs import Piece, compare

PAIRS = (("before", "after"), ("old", "new"), ("current", "proposed"), ("original", "updated"))
MIN_COMPARED_LENGTH = 40
MAX_COMPARED_LENGTH = 20_000


def find_versions(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return two versions of a text that are worth comparing, the earlier one first, or None."""
    for earlier, later in PAIRS:
        if earlier in values and later in values:
            before, after = values[earlier], values[later]
            if isinstance(before, str) and isinstance(after, str) and _is_worth_comparing(before, after):
                return before, after
    return None


def render_changes(writing: MarkupWriter, before: str, after: str) -> str:
    """Return the second text as markup, with additions and removals marked."""
    found = compare(before, after)
    pieces = [_render_piece(writing, piece) for change in found.changes for piece in change.pieces]
    more = ""
    if found.cut:
        said = writing.t("More changed than can be shown here. Read the whole text before you decide.")
        more = f'<p class="hint">{said}</p>'
    return f'<div class="diff" dir="auto">{"".join(pieces)}</div>{more}'


def _is_worth_comparing(before: str, after: str) -> bool:
    return before != after and MIN_COMPARED_LENGTH < len(before) + len(after) <= MAX_COMPARED_LENGTH


def _render_piece(writing: MarkupWriter, piece: Piece) -> str:
    if piece.sign == "gap":
        return '<span class="gap">⋯</span>'
    text = writing.write_text(str(piece.value))
    if piece.sign == "same":
        return text
    text = text.replace("\n", "↵\n")
    if piece.sign == "added":
        return f'<ins><span class="offscreen">{writing.t("added:")} </span>{text}</ins>'
    return f'<del><span class="offscreen">{writing.t("removed:")} </span>{text}</del>'
