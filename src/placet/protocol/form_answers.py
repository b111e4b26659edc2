"""Validate a person's answers to a form: visible fields, problems, and the data to store."""

from collections.abc import Iterable, Mapping
from itertools import islice

from placet.errors import InvalidInput
from placet.protocol.answer_problems import Problem, build_problem
from placet.protocol.conditions import is_condition_met
from placet.protocol.conversion import quote
from placet.protocol.field_values import build_missing_answer_problem, is_blank, validate_answer
from placet.protocol.fields import Field
from placet.protocol.forms import Form

MAX_UNKNOWN_KEYS_NAMED = 20


def find_visible_fields(form: Form, values: Mapping[str, object]) -> tuple[Field, ...]:
    """Return the fields that are visible with these answers; fields that depend on hidden ones are not."""
    visible: dict[str, Field] = {}
    for field in form.every_field:
        condition = field.conditional
        if condition is None or (
            condition.field in visible and is_condition_met(condition, values.get(condition.field))
        ):
            visible[field.key] = field
    return tuple(visible.values())


def find_visible_fields_in_step(
    form: Form, values: Mapping[str, object], step_index: int
) -> tuple[Field, ...]:
    """Return the visible fields of one step, counted from 0; raises `InvalidInput` for an unknown step."""
    if not 0 <= step_index < len(form.groups):
        raise InvalidInput(f"The form has no step {step_index}. It has {len(form.groups)}, counted from 0.")
    keys = {field.key for field in form.groups[step_index]}
    return tuple(field for field in find_visible_fields(form, values) if field.key in keys)


def find_problems(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    """Return the problems by key, in the order of the form; unknown keys come last."""
    return {
        **_find_field_problems(find_visible_fields(form, values), values),
        **_find_unknown_keys(form, values),
    }


def check_answers(form: Form, values: Mapping[str, object]) -> dict[str, object]:
    """Return the data to store: the answers to visible fields that are not blank.

    Raises `InvalidInput` with `fields` (a message by key) and `codes` (a code by key).
    """
    _require_object(values)
    _raise_problems(find_problems(form, values))
    return _collect_data(find_visible_fields(form, values), values)


def find_field_problem(field: Field, value: object) -> Problem | None:
    """Return the problem of the answer to one visible field, or None."""
    if is_blank(value):
        return build_missing_answer_problem(field) if field.required else None
    return validate_answer(field, value)


def _find_field_problems(fields: Iterable[Field], values: Mapping[str, object]) -> dict[str, Problem]:
    judged = ((field.key, find_field_problem(field, values.get(field.key))) for field in fields)
    return {key: found for key, found in judged if found is not None}


def _find_unknown_keys(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    known = {field.key for field in form.every_field}
    strangers = (key for key in values if key not in known)
    return {
        _quote_key(key): build_problem("unknown_field") for key in islice(strangers, MAX_UNKNOWN_KEYS_NAMED)
    }


def _quote_key(key: object) -> str:
    return quote(key) if isinstance(key, str) else f"<{type(key).__name__}>"


def _collect_data(fields: Iterable[Field], values: Mapping[str, object]) -> dict[str, object]:
    answered = ((field.key, values.get(field.key)) for field in fields)
    return {key: _copy_value(value) for key, value in answered if not is_blank(value)}


def _copy_value(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else value


def _require_object(values: object) -> None:
    if not isinstance(values, Mapping):
        raise InvalidInput("The answers must be a JSON object of field keys and values.")


def _raise_problems(problems: Mapping[str, Problem]) -> None:
    if problems:
        raise InvalidInput(
            fields={key: found.message for key, found in problems.items()},
            codes={key: found.code for key, found in problems.items()},
        )
