"""Reasons that a service suggests, which the reviewer can choose instead of writing one."""

from collections.abc import Mapping
from typing import Any

from placet.reviews.page_form import Pairs, get_last_value
from placet.text.characters import normalize_newlines

SPELLINGS = ("reason_presets", "presets")
FIELD = "preset"
MAX_PRESETS = 12
MAX_LABEL_LENGTH = 80
MAX_TEXT_LENGTH = 1000


def read_presets(context: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the suggested reasons, each with `label` and `text`; none if one of them is not valid."""
    return next((read for name in SPELLINGS if (read := _read(context.get(name)))), [])


def find_presets_key(context: Mapping[str, Any]) -> str | None:
    """Return the context key of the suggestions, so that they are not shown again as facts."""
    return next((name for name in SPELLINGS if _read(context.get(name))), None)


def read_text_with_preset(context: Mapping[str, Any], pairs: Pairs, field: str) -> str | None:
    """Return the text under `field`, preceded by the chosen suggestion unless the text contains it."""
    written = get_last_value(pairs, field)
    picked = _find_preset_text(read_presets(context), get_last_value(pairs, FIELD) or "")
    if picked is None or picked in (written or ""):
        return written
    return f"{picked}\n\n{written}" if written and written.strip() else picked


def _find_preset_text(presets: list[dict[str, str]], number: str) -> str | None:
    """Find a suggestion by its number, which forms send because browsers would change its text."""
    known = {str(place): preset["text"] for place, preset in enumerate(presets, start=1)}
    return known.get(number)


def _read(raw: object) -> list[dict[str, str]]:
    if not isinstance(raw, list | tuple) or not 0 < len(raw) <= MAX_PRESETS:
        return []
    read = [_read_one(entry) for entry in raw]
    return [one for one in read if one] if all(read) else []


def _read_one(entry: object) -> dict[str, str] | None:
    given = {"label": entry} if isinstance(entry, str) else entry
    if not isinstance(given, Mapping) or not given.keys() <= {"label", "text"}:
        return None
    label = given.get("label") or given.get("text")
    text = given.get("text") or label
    if not isinstance(label, str) or not isinstance(text, str) or not label.strip() or not text.strip():
        return None
    fits = len(label) <= MAX_LABEL_LENGTH and len(text) <= MAX_TEXT_LENGTH and "\n" not in label
    return {"label": label, "text": normalize_newlines(text).strip()} if fits else None
