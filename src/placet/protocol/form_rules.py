"""Rules for the definition of a form field; each returns an error text, or None."""

import re
from collections.abc import Callable

from placet.errors import AddressRefused
from placet.protocol.addresses import check_url
from placet.protocol.conversion import quote
from placet.protocol.field_values import is_blank, is_number, parse_date, validate_answer
from placet.protocol.fields import (
    CUSTOM,
    FIELD_TYPES,
    MAX_OPTIONS,
    MAX_PATTERNED_TEXT_LENGTH,
    Field,
)
from placet.protocol.patterns import PatternRefused, measure_pattern
from placet.text.characters import is_storable, normalize_newlines

MAX_LABEL_LENGTH = 200
MAX_HINT_LENGTH = 2_000
MAX_MAX_LENGTH = 100_000

_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")
_CUSTOM_TYPE = re.compile(r"x-[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")

_LENGTHS = ("minLength", "maxLength")
_RULES_OF = {
    "text": (*_LENGTHS, "pattern"),
    "textarea": _LENGTHS,
    "email": (*_LENGTHS, "pattern"),
    "url": (*_LENGTHS, "pattern"),
    "number": ("min", "max"),
    "range": ("min", "max"),
    "date": ("min", "max"),
    CUSTOM: (*_LENGTHS, "pattern", "min", "max"),
}


def find_field_error(field: Field) -> str | None:
    """Return the first error in a field's definition, worded to follow the path of the field, or None."""
    return next((complaint for rule in _RULES if (complaint := rule(field))), None)


def _check_key(field: Field) -> str | None:
    if _KEY.fullmatch(field.key):
        return None
    return "key must start with a letter and hold only letters, digits and _, at most 100"


def _check_type(field: Field) -> str | None:
    if field.type in FIELD_TYPES or _CUSTOM_TYPE.fullmatch(field.type):
        return None
    return f"type {quote(field.type)!r} is unknown; use {', '.join(FIELD_TYPES)} or x-..."


def _check_texts(field: Field) -> str | None:
    if is_blank(field.label) or len(field.label) > MAX_LABEL_LENGTH:
        return f"label must be 1 to {MAX_LABEL_LENGTH} characters"
    if max(len(field.placeholder), len(field.hint)) > MAX_HINT_LENGTH:
        return f"placeholder and hint take at most {MAX_HINT_LENGTH} characters"
    storable = is_storable(field.label + field.placeholder + field.hint)
    return None if storable else "label, placeholder and hint must not hold control characters"


def _check_options(field: Field) -> str | None:
    if field.field_type in ("select", "multiselect"):
        if not 1 <= len(field.options) <= MAX_OPTIONS:
            return f"a {field.type} needs 1 to {MAX_OPTIONS} options"
    elif field.options and field.field_type != CUSTOM:
        return f"options belong to select and multiselect, not to {field.type}"
    return _check_option_values(field)


def _check_option_values(field: Field) -> str | None:
    values = [
        normalize_newlines(option.value) for option in field.options
    ]  # posted forms differ only in this
    if len(set(values)) != len(values):
        return "two options have the same value"
    for option in field.options:
        if is_blank(option.value) or is_blank(option.label):
            return "an option needs a value and a label"
        if max(len(option.value), len(option.label)) > MAX_LABEL_LENGTH:
            return f"the value and label of an option take at most {MAX_LABEL_LENGTH} characters"
        if not is_storable(option.value + option.label):
            return "options must not hold control characters"
    return None


def _check_applicable(field: Field) -> str | None:
    rules = field.validation
    given = {
        "minLength": rules.min_length,
        "maxLength": rules.max_length,
        "pattern": rules.pattern,
        "min": rules.min,
        "max": rules.max,
    }
    stray = [
        name
        for name, rule in given.items()
        if rule is not None and name not in _RULES_OF.get(field.field_type, ())
    ]
    if stray:
        return f"validation.{stray[0]} does not apply to a {field.type} field"
    if (
        field.field_type == CUSTOM
        and _has_bounds(field)
        and any(given[n] is not None for n in _RULES_OF["text"])
    ):
        return "validation takes lengths and pattern, or min and max, not both"
    return None


def _check_lengths(field: Field) -> str | None:
    shortest, longest = field.validation.min_length or 0, field.longest
    if shortest < 0 or not 1 <= longest <= MAX_MAX_LENGTH:
        return f"validation.maxLength must be 1 to {MAX_MAX_LENGTH}, minLength 0 or more"
    if shortest > longest:
        return f"validation.minLength is above the longest answer ({longest})"
    return None


def _check_pattern(field: Field) -> str | None:
    pattern = field.validation.pattern
    if pattern is None:
        return None
    if field.longest > MAX_PATTERNED_TEXT_LENGTH:
        return f"validation.maxLength must not pass {MAX_PATTERNED_TEXT_LENGTH} beside a pattern"
    try:
        measure_pattern(pattern)
    except PatternRefused as refusal:
        return f"validation.pattern {refusal}"
    return None


def _check_bounds(field: Field) -> str | None:
    smallest, largest = field.validation.min, field.validation.max
    given = [bound for bound in (smallest, largest) if bound is not None]
    if field.type == "date":
        if not all(parse_date(bound) for bound in given):
            return 'the min and max of a date must be dates such as "2026-01-31"'
    elif not all(is_number(bound) for bound in given):
        return "validation.min and validation.max must be numbers within ±(2^53-1)"
    if field.type == "range" and len(given) == 1:
        return "a range needs both min and max, or neither for 0 to 100"
    return "validation.min is above validation.max" if len(given) == 2 and given[0] > given[1] else None  # type: ignore[operator]


def _check_default(field: Field) -> str | None:
    if is_blank(field.default):
        return None
    if field.sensitive:
        return "a sensitive field takes no default; use default_ref"
    if field.default_ref is not None:
        return "give default or default_ref, not both"
    found = validate_answer(field, field.default)
    return None if found is None else f"default does not fit the field ({found.code})"


def _check_default_ref(field: Field) -> str | None:
    if field.default_ref is None:
        return None
    try:
        check_url(field.default_ref, allow_loopback=True)  # loopback is checked when it is called
    except AddressRefused as refusal:
        return f"default_ref cannot be called: {refusal.message}"
    return None


def _has_bounds(field: Field) -> bool:
    return field.bounds != (None, None)


# The order matters: later rules rely on earlier ones.
_RULES: tuple[Callable[[Field], str | None], ...] = (
    _check_key,
    _check_type,
    _check_texts,
    _check_options,
    _check_applicable,
    _check_lengths,
    _check_pattern,
    _check_bounds,
    _check_default,
    _check_default_ref,
)
