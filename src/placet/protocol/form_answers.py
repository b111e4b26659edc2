"""Whether a person's answers fit a form: what is visible, what is wrong, and the cleaned data."""

from collections.abc import Iterable, Mapping
from itertools import islice

from placet.errors import InvalidInput
from placet.protocol.answer_problems import Problem, problem
from placet.protocol.conditions import is_condition_met
from placet.protocol.conversion import quote
from placet.protocol.field_values import is_blank, missing_answer_problem, validate_answer
from placet.protocol.fields import Field
from placet.protocol.forms import Form

MAX_UNKNOWN_KEYS_NAMED = 20


def find_visible_fields(form: Form, values: Mapping[str, object]) -> tuple[Field, ...]:
    """The fields a person with these answers sees; what hangs on a hidden field is hidden with it."""
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
    """The visible fields of one step, counted from 0; raises `InvalidInput` when there is no such step."""
    if not 0 <= step_index < len(form.groups):
        raise InvalidInput(f"This form has {len(form.groups)} steps.")
    keys = {field.key for field in form.groups[step_index]}
    return tuple(field for field in find_visible_fields(form, values) if field.key in keys)


def find_problems(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    """What is wrong, by key and in the form's order; keys the form does not ask for come last."""
    return {
        **_find_field_problems(find_visible_fields(form, values), values),
        **_find_unknown_keys(form, values),
    }


def check_answers(form: Form, values: Mapping[str, object]) -> dict[str, object]:
    """The data to keep: visible answers only, nothing blank.

    Raises `InvalidInput` with `fields` (a message by key) and `codes` (a code by key).
    """
    _require_object(values)
    _raise_problems(find_problems(form, values))
    return _collect_data(find_visible_fields(form, values), values)


def find_field_problem(field: Field, value: object) -> Problem | None:
    """What is wrong with the answer to one visible field, or None."""
    if is_blank(value):
        return missing_answer_problem(field) if field.required else None
    return validate_answer(field, value)


def _find_field_problems(fields: Iterable[Field], values: Mapping[str, object]) -> dict[str, Problem]:
    judged = ((field.key, find_field_problem(field, values.get(field.key))) for field in fields)
    return {key: found for key, found in judged if found is not None}


def _find_unknown_keys(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    known = {field.key for field in form.every_field}
    strangers = (key for key in values if key not in known)
    return {_quote_key(key): problem("unknown_field") for key in islice(strangers, MAX_UNKNOWN_KEYS_NAMED)}


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
