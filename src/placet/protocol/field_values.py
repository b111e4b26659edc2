"""Validate one answer against its field; no message contains the answer."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

from placet.protocol.answer_problems import Problem, build_problem
from placet.protocol.fields import CUSTOM, MAX_NUMBER, Field, Number
from placet.protocol.patterns import matches
from placet.text.characters import is_one_line, is_storable

MAX_EMAIL_LENGTH = 254
MAX_EMAIL_NAME_LENGTH = 64
MAX_URL_LENGTH = 2048

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ATOM = r"[^\s@<>()\[\]\\,;:\".]+"
_EMAIL_NAME = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL = r"[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?"
_EMAIL_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
_NEVER_IN_URLS = re.compile(r"[\s<>\"\\^`{|}]")

_MISSING = {
    "boolean": "required_yes_no",
    "select": "required_option",
    "multiselect": "required_options",
}


def is_blank(value: object) -> bool:
    """Return whether a value counts as no answer: null, only spaces, or an empty list."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or value in ([], ())


def build_missing_answer_problem(field: Field) -> Problem:
    """Return the problem of a required field without an answer."""
    return build_problem(_MISSING.get(field.type, "required"))


def validate_answer(field: Field, value: object) -> Problem | None:
    """Return the first problem of an answer that is not blank, or None."""
    return _VALIDATORS[field.field_type](field, value)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that every JSON implementation can represent."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -MAX_NUMBER <= value <= MAX_NUMBER


def parse_date(value: object) -> date | None:
    """Return the date of a `YYYY-MM-DD` text, or None."""
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        return None


def _validate_textarea(field: Field, value: object) -> Problem | None:
    if not isinstance(value, str):
        return build_problem("not_text")
    if not is_storable(value):
        return build_problem("control_characters")
    return _validate_length(field, value)


def _validate_text(field: Field, value: object) -> Problem | None:
    if found := _validate_textarea(field, value):
        return found
    text = str(value)
    if not is_one_line(text):
        return build_problem("several_lines")
    pattern = field.validation.pattern
    return build_problem("wrong_form") if pattern is not None and not matches(pattern, text) else None


def _validate_length(field: Field, text: str) -> Problem | None:
    shortest, longest = field.validation.min_length or 0, field.longest
    if len(text) > longest:
        return build_problem("one_character") if longest == 1 else build_problem("too_long", maximum=longest)
    return build_problem("too_short", minimum=shortest) if len(text) < shortest else None


def _validate_email(field: Field, value: object) -> Problem | None:
    if not (isinstance(value, str) and _is_email(value)):
        return build_problem("not_an_email")
    return _validate_text(field, value)


def _validate_url(field: Field, value: object) -> Problem | None:
    if not (isinstance(value, str) and _is_web_address(value)):
        return build_problem("not_a_url")
    return _validate_text(field, value)


def _validate_number(field: Field, value: object) -> Problem | None:
    # NaN is the one number that differs from itself; math.isnan fails on huge integers.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return build_problem("not_a_number")
    smallest, largest = _read_number_bounds(field)
    if value < smallest:
        return build_problem("too_small", minimum=smallest)
    return build_problem("too_large", maximum=largest) if value > largest else None


def _read_number_bounds(field: Field) -> tuple[Number, Number]:
    smallest, largest = field.bounds
    return (
        smallest if isinstance(smallest, int | float) else -MAX_NUMBER,
        largest if isinstance(largest, int | float) else MAX_NUMBER,
    )


def _validate_date(field: Field, value: object) -> Problem | None:
    day = parse_date(value)
    if day is None:
        return build_problem("not_a_date")
    earliest, latest = (parse_date(bound) for bound in field.bounds)
    if earliest and day < earliest:
        return build_problem("too_early", minimum=earliest)
    return build_problem("too_late", maximum=latest) if latest and day > latest else None


def _validate_boolean(_field: Field, value: object) -> Problem | None:
    return None if isinstance(value, bool) else build_problem("not_yes_no")


def _validate_select(field: Field, value: object) -> Problem | None:
    known = isinstance(value, str) and any(option.value == value for option in field.options)
    return None if known else build_problem("not_an_option")


def _validate_multiselect(field: Field, value: object) -> Problem | None:
    if not isinstance(value, list | tuple) or not all(isinstance(choice, str) for choice in value):
        return build_problem("not_options")
    chosen = set(value)
    if not chosen <= {option.value for option in field.options}:
        return build_problem("not_options")
    return None if len(chosen) == len(value) else build_problem("repeated_option")


def _validate_custom(field: Field, value: object) -> Problem | None:
    """Spec 10.3.1: an unknown type falls back to text; bounds make it a number, other scalars pass."""
    rules = field.validation
    if field.bounds != (None, None):
        return _validate_number(field, value)
    wants_text = (rules.min_length, rules.max_length, rules.pattern) != (None, None, None)
    if isinstance(value, bool) and not wants_text:
        return None
    if isinstance(value, int | float) and not wants_text:
        return _validate_number(field, value)
    return _validate_text(field, value) if rules.pattern is not None else _validate_textarea(field, value)


def _is_email(text: str) -> bool:
    name, _, host = text.rpartition("@")
    short = len(text) <= MAX_EMAIL_LENGTH and len(name) <= MAX_EMAIL_NAME_LENGTH
    return bool(short and text.isprintable() and _EMAIL_NAME.fullmatch(name) and _EMAIL_HOST.fullmatch(host))


def _is_web_address(text: str) -> bool:
    if len(text) > MAX_URL_LENGTH or not text.isprintable() or _NEVER_IN_URLS.search(text):
        return False
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and any(character.isalnum() for character in host)


_VALIDATORS: Mapping[str, Callable[[Field, object], Problem | None]] = {
    "text": _validate_text,
    "textarea": _validate_textarea,
    "number": _validate_number,
    "date": _validate_date,
    "email": _validate_email,
    "url": _validate_url,
    "boolean": _validate_boolean,
    "select": _validate_select,
    "multiselect": _validate_multiselect,
    "range": _validate_number,
    CUSTOM: _validate_custom,
}
