"""A retry's parameters as a person edits them: text on the page, of the same type as before in the answer."""

import re
from typing import Any

from assent.reviews.page_form import survives_a_form

_WORDS = {"true": True, "false": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,16}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?")


def editable(value: object) -> bool:
    """Whether a page can offer this value for editing: a scalar whose text survives a form."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and survives_a_form(value))


def from_text(text: str, before: object) -> Any:
    """The typed text as a value of the type it had before; the text itself where it cannot be that."""
    if isinstance(before, bool):
        return _WORDS.get(text.strip().lower(), text)
    if isinstance(before, int | float) and _WHOLE.fullmatch(text.strip()):
        return int(text)
    if isinstance(before, int | float) and _DECIMAL.fullmatch(text.strip()):
        return float(text)
    return text


def fits(value: object, before: object) -> bool:
    """Whether a changed value has the type of the one before; null may become anything."""
    if before is None:
        return True
    if isinstance(before, bool) or isinstance(value, bool):
        return isinstance(before, bool) and isinstance(value, bool)
    if isinstance(before, int | float):
        return isinstance(value, int | float)
    return isinstance(value, dict if isinstance(before, dict) else type(before))
