"""The parameters of a retry: edited as text on the page, with their original types in the answer."""

import re
from collections.abc import Mapping
from typing import Any

from placet.reviews.page_form import format_value, is_editable_text, is_form_name, may_be_thousands
from placet.text.characters import normalize_newlines
from placet.text.wording import message

LONG_TEXT = 80

_WORDS = {"true": True, "false": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,16}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?")


def is_editable(key: str, value: object) -> bool:
    """Whether a page can offer this value for editing: a scalar that a form returns unchanged."""
    if not is_form_name(key):
        return False
    return isinstance(value, bool | int | float) or (isinstance(value, str) and is_editable_text(value))


def format_param(key: str, value: Any, modified: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter for the page: its original and typed value, whether it changed, and any problem."""
    before, typed = format_value(value), format_value(modified.get(key, value))
    wrong = key in modified and not has_same_type(modified[key], value)
    return {
        "key": key,
        "value": value,
        "before": before,
        "typed": typed,
        "changed": typed != before,
        "editable": is_editable(key, value),
        "control": _choose_control(value),
        "problem": _describe_expected(value, before) if wrong else None,
    }


def _choose_control(value: object) -> str:
    if isinstance(value, bool):
        return "yes_no"
    if isinstance(value, int | float):
        return "numeric" if isinstance(value, int) and value >= 0 else "decimal"
    text = normalize_newlines(value) if isinstance(value, str) else ""
    return "lines" if "\n" in text or len(text) > LONG_TEXT else "text"


def _describe_expected(value: object, before: str) -> str:
    if isinstance(value, bool):
        return message("Choose yes or no.")
    if isinstance(value, int | float):
        return message("Write a number, such as {before}.", before=before)
    return message("This must be of the same kind as before.")


def parse_param(text: str, before: object, grouping: str | None = None) -> Any:
    """Return the typed text converted to the original type, or the text itself if that fails."""
    if isinstance(before, bool):
        return _WORDS.get(text.strip().lower(), text)
    if may_be_thousands(text, grouping):
        return text
    if isinstance(before, int | float) and _WHOLE.fullmatch(text.strip()):
        return int(text)
    if isinstance(before, int | float) and _DECIMAL.fullmatch(text.strip()):
        return float(text)
    return text


def has_same_type(value: object, before: object) -> bool:
    """Whether a changed value has the type of the original; null may become anything."""
    if before is None:
        return True
    if isinstance(before, bool) or isinstance(value, bool):
        return isinstance(before, bool) and isinstance(value, bool)
    if isinstance(before, int | float):
        return isinstance(value, int | float)
    return isinstance(value, dict if isinstance(before, dict) else type(before))
