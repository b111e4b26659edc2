"""The actions that a service suggests after a failure. They are shown, never preselected."""

from collections.abc import Mapping
from typing import Any

SPELLINGS = (
    *("suggestions", "suggested_actions", "suggested_action", "suggestion"),
    *("recommended_actions", "recommended_action", "recommendations", "recommendation"),
)
_TEXTS = ("title", "label", "text", "description", "reason", "summary", "message")


def read_suggestions(
    context: Mapping[str, Any], actions: tuple[str, ...]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the suggestions, each with its action if the case offers it, and their context key."""
    for name in SPELLINGS:
        raw = context.get(name)
        entries = raw if isinstance(raw, list | tuple) else [raw]
        read = [_read_one(entry, actions) for entry in entries]
        if read and all(read):
            return [one for one in read if one], name
    return [], None


def _read_one(entry: object, actions: tuple[str, ...]) -> dict[str, Any] | None:
    if _is_text(entry):
        action = entry if entry in actions else None
        return {"action": action, "text": None if action else entry, "facts": {}}
    if not isinstance(entry, Mapping) or not entry:
        return None
    action = next((name for name in actions if entry.get("action") == name), None)
    text_name = next(
        (name for name in _TEXTS if isinstance(entry.get(name), str) and entry[name].strip()), None
    )
    known = {text_name, "action" if action else None}
    facts = {key: value for key, value in entry.items() if key not in known}
    return {"action": action, "text": entry[text_name] if text_name else None, "facts": facts}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
