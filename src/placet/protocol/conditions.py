"""Evaluate and check the condition of a conditional field (spec 10.3.3)."""

from collections.abc import Callable, Iterable, Mapping

from placet.protocol.conversion import quote
from placet.protocol.field_values import is_blank, is_number, parse_date
from placet.protocol.fields import CUSTOM, MAX_OPTIONS, Conditional, Field, Number
from placet.text.characters import is_storable

_ORDERED = frozenset({"number", "range", "date", CUSTOM})


def is_condition_met(condition: Conditional, answer: object) -> bool:
    """Return whether the answer to the earlier field meets the condition.

    A blank answer equals no value. Several chosen options meet `eq` and `in` if one of them does.
    """
    if condition.operator in ("gt", "lt"):
        return _is_beyond(answer, condition)
    given = answer if isinstance(answer, list | tuple) else [answer]
    wanted = condition.value if condition.operator == "in" else [condition.value]
    met = not is_blank(answer) and not _to_hashable_set(given[:MAX_OPTIONS]).isdisjoint(
        _to_hashable_set(wanted)
    )
    return met != (condition.operator == "neq")


def find_condition_error(condition: Conditional, controller: Field) -> str | None:
    """Return what is wrong with a condition on the answer to `controller`, or None."""
    name = quote(controller.key)
    if condition.operator in ("gt", "lt") and controller.field_type not in _ORDERED:
        return f"{condition.operator} compares numbers and dates; {name} is a {controller.field_type} field"
    if condition.operator != "in":
        return None if _fits(condition, controller, condition.value) else _describe_value_error(controller)
    values = condition.value
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= MAX_OPTIONS:
        return f"in needs a list of 1 to {MAX_OPTIONS} values"
    return (
        None
        if all(_fits(condition, controller, value) for value in values)
        else _describe_value_error(controller)
    )


def _is_beyond(answer: object, condition: Conditional) -> bool:
    given, limit = _to_comparable(answer), _to_comparable(condition.value)
    if given is None or limit is None or given[0] != limit[0]:
        return False
    return given[1] > limit[1] if condition.operator == "gt" else given[1] < limit[1]


def _to_comparable(value: object) -> tuple[str, Number] | None:
    if isinstance(value, int | float) and is_number(value):
        return "number", value
    day = parse_date(value)
    return None if day is None else ("date", day.toordinal())


def _to_hashable_set(values: Iterable[object]) -> set[tuple[str, object]]:
    """Return the scalar values as a set in which true differs from 1."""
    return {
        ("boolean" if isinstance(value, bool) else "other", value) for value in values if _is_scalar(value)
    }


def _fits(condition: Conditional, controller: Field, value: object) -> bool:
    if controller.field_type in ("select", "multiselect"):
        return any(option.value == value for option in controller.options)
    if controller.field_type == CUSTOM and condition.operator in ("gt", "lt"):
        return is_number(value)
    _, fits = _COMPARABLE[controller.field_type]
    return fits(value)


def _describe_value_error(controller: Field) -> str:
    wanted, _ = _COMPARABLE[controller.field_type]
    return f"value must be {wanted}, to be compared with {quote(controller.key)}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_storable(value)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_date(value: object) -> bool:
    return parse_date(value) is not None


def _is_scalar(value: object) -> bool:
    return _is_text(value) or isinstance(value, bool) or is_number(value)


_COMPARABLE: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "text": ("text", _is_text),
    "textarea": ("text", _is_text),
    "email": ("text", _is_text),
    "url": ("text", _is_text),
    "number": ("a number", is_number),
    "range": ("a number", is_number),
    "date": ('a date such as "2026-01-31"', _is_date),
    "boolean": ("true or false", _is_boolean),
    "select": ("one of the options", _is_text),
    "multiselect": ("one of the options", _is_text),
    CUSTOM: ("text, a number, true or false", _is_scalar),
}
