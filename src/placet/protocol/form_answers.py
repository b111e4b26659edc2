"""Whether a person's answers fit a form: what is visible, what is wrong, and the cleaned data."""

from collections.abc import Iterable, Mapping
from itertools import islice

from placet.errors import InvalidInput
from placet.protocol.answer_problems import Problem, problem
from placet.protocol.conditions import holds
from placet.protocol.conversion import quote
from placet.protocol.field_values import is_blank, judge, missing
from placet.protocol.fields import Field
from placet.protocol.forms import Form

MOST_STRANGERS_NAMED = 20


def visible_fields(form: Form, values: Mapping[str, object]) -> tuple[Field, ...]:
    """The fields a person with these answers sees; what hangs on a hidden field is hidden with it."""
    visible: dict[str, Field] = {}
    for field in form.every_field:
        condition = field.conditional
        if condition is None or (
            condition.field in visible and holds(condition, values.get(condition.field))
        ):
            visible[field.key] = field
    return tuple(visible.values())


def visible_in_step(form: Form, values: Mapping[str, object], step_index: int) -> tuple[Field, ...]:
    """The visible fields of one step, counted from 0; raises `InvalidInput` when there is no such step."""
    if not 0 <= step_index < len(form.groups):
        raise InvalidInput(f"This form has {len(form.groups)} steps.")
    keys = {field.key for field in form.groups[step_index]}
    return tuple(field for field in visible_fields(form, values) if field.key in keys)


def find_problems(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    """What is wrong, by key and in the form's order; keys the form does not ask for come last."""
    return {**_judge_all(visible_fields(form, values), values), **_strangers(form, values)}


def check_answers(form: Form, values: Mapping[str, object]) -> dict[str, object]:
    """The data to keep: visible answers only, nothing blank.

    Raises `InvalidInput` with `fields` (a message by key) and `codes` (a code by key).
    """
    _require_object(values)
    _refuse(find_problems(form, values))
    return _collect_data(visible_fields(form, values), values)


def field_problem(field: Field, value: object) -> Problem | None:
    """What is wrong with the answer to one visible field, or None."""
    if is_blank(value):
        return missing(field) if field.required else None
    return judge(field, value)


def _judge_all(fields: Iterable[Field], values: Mapping[str, object]) -> dict[str, Problem]:
    judged = ((field.key, field_problem(field, values.get(field.key))) for field in fields)
    return {key: found for key, found in judged if found is not None}


def _strangers(form: Form, values: Mapping[str, object]) -> dict[str, Problem]:
    known = {field.key for field in form.every_field}
    strangers = (key for key in values if key not in known)
    return {_name(key): problem("unknown_field") for key in islice(strangers, MOST_STRANGERS_NAMED)}


def _name(key: object) -> str:
    return quote(key) if isinstance(key, str) else f"<{type(key).__name__}>"


def _collect_data(fields: Iterable[Field], values: Mapping[str, object]) -> dict[str, object]:
    answered = ((field.key, values.get(field.key)) for field in fields)
    return {key: _own(value) for key, value in answered if not is_blank(value)}


def _own(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else value


def _require_object(values: object) -> None:
    if not isinstance(values, Mapping):
        raise InvalidInput("The answers must be a JSON object of field keys and values.")


def _refuse(problems: Mapping[str, Problem]) -> None:
    if problems:
        raise InvalidInput(
            fields={key: found.message for key, found in problems.items()},
            codes={key: found.code for key, found in problems.items()},
        )
