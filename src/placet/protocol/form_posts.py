"""Convert an HTML form post to typed answers; values that cannot be converted stay text."""

import re
from collections.abc import Callable, Mapping, Sequence

from placet.protocol.fields import CUSTOM, Field
from placet.protocol.forms import Form
from placet.text.characters import normalize_newlines

MAX_NUMBER_LENGTH = 40

_YES_NO = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def answers_from_strings(form: Form, pairs: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return typed answers from a posted form, for `check_answers`; never raises.

    A repeated key is several choices for a multiselect. For other fields the last value counts, so that a
    hidden "false" can precede a checkbox. Values of unknown keys stay text.
    """
    fields = {field.key: field for field in form.every_field}
    posted: dict[str, list[str]] = {}
    for key, text in pairs:
        posted.setdefault(key, []).append(text)
    return {key: _convert(fields.get(key), texts) for key, texts in posted.items()}


def _convert(field: Field | None, texts: list[str]) -> object:
    if field is None:
        return texts[-1]
    if field.field_type == "multiselect":
        return [_convert_option(field, text) for text in texts if text]
    return _CONVERTERS[field.field_type](field, texts[-1])


def _convert_text(_field: Field, text: str) -> object:
    # Browsers send line breaks as CR LF and count them as one character.
    return normalize_newlines(text)


def _convert_stripped_text(_field: Field, text: str) -> object:
    return text.strip()


def _convert_option(field: Field, text: str) -> object:
    sent = normalize_newlines(text)
    return next((option.value for option in field.options if normalize_newlines(option.value) == sent), text)


def _convert_number(_field: Field, text: str) -> object:
    plain = text.strip()
    if len(plain) > MAX_NUMBER_LENGTH or not _DECIMAL.fullmatch(plain):
        return text
    number = int(plain) if _INTEGER.fullmatch(plain) else float(plain)
    return text if number in (float("inf"), float("-inf")) else number


def _convert_boolean(_field: Field, text: str) -> object:
    plain = text.strip().lower()
    return _YES_NO.get(plain, text)


def _convert_custom(field: Field, text: str) -> object:
    return _convert_text(field, text) if field.bounds == (None, None) else _convert_number(field, text)


_CONVERTERS: Mapping[str, Callable[[Field, str], object]] = {
    "text": _convert_text,
    "textarea": _convert_text,
    "number": _convert_number,
    "range": _convert_number,
    "date": _convert_stripped_text,
    "email": _convert_stripped_text,
    "url": _convert_stripped_text,
    "boolean": _convert_boolean,
    "select": _convert_option,
    CUSTOM: _convert_custom,
}
