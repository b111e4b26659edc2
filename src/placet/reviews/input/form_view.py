"""The view of a form for its page: the fields, the recap of the answers, and no sensitive values."""

from collections.abc import Mapping
from typing import Any

from placet.protocol.field_values import is_blank
from placet.protocol.fields import Field
from placet.protocol.form_answers import find_problems, find_visible_fields
from placet.protocol.forms import Form, collect_defaults
from placet.reviews.input.controls import choose_control, choose_keyboard_attributes
from placet.reviews.input.review_step import adds_review, digest_answers, get_last_page
from placet.reviews.page_form import format_value
from placet.text.wording import Title

MASK = "••••••••"


def build_form_view(form: Form, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps in order, each with its visible fields and a recap of their answers.

    `every` also holds the fields that an answer on the same step can show or hide.
    """
    filled = {**collect_defaults(form), **values}
    visible = {field.key for field in find_visible_fields(form, filled)}
    words = [(step.title, step.description) for step in form.steps] if form.steps else [("", "")]
    return [
        {
            "title": title,
            "description": description,
            "summary": not group,
            "fields": [_build_field_view(field, filled) for field in group if field.key in visible],
            "every": [
                {**_build_field_view(field, filled), "asked": field.key in visible}
                for field in group
                if field.key in visible or _may_appear(field, group)
            ],
            "recap": [_build_recap_entry(field, filled) for field in group if field.key in visible],
        }
        for (title, description), group in zip(words, form.groups, strict=True)
    ]


def build_review_view(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of the review step: its number, whether we added it, and its fingerprint."""
    filled = {**collect_defaults(form), **values}
    return {
        "page": get_last_page(form),
        "ours": adds_review(form),
        "fingerprint": digest_answers(form, filled),
        "complete": not find_problems(form, filled),
    }


def build_recap(form: Form, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the answers under the form's labels."""
    given = [field for field in form.every_field if field.key in data]
    return [(Title(field.label), _describe_answer(field, data[field.key])) for field in given]


def _may_appear(field: Field, group: tuple[Field, ...]) -> bool:
    condition = field.conditional
    return condition is not None and any(other.key == condition.field for other in group)


def _build_field_view(field: Field, values: Mapping[str, Any]) -> dict[str, Any]:
    value = values.get(field.key)
    smallest, largest = field.bounds
    return {
        "key": field.key,
        "label": field.label,
        "control": choose_control(field),
        "keyboard": choose_keyboard_attributes(field),
        "required": field.required,
        "hint": field.hint,
        "placeholder": field.placeholder,
        "options": [{"value": option.value, "label": option.label} for option in field.options],
        "smallest": smallest,
        "largest": largest,
        "most": field.validation.max_length,
        "sensitive": field.sensitive,
        "conditional": field.conditional is not None,
        "saved": field.sensitive and not is_blank(value),
        "typed": "" if field.sensitive or is_blank(value) else _format_typed(value),
    }


def _build_recap_entry(field: Field, values: Mapping[str, Any]) -> dict[str, Any]:
    words = _describe_answer(field, values.get(field.key))
    return {
        "key": field.key,
        "label": field.label,
        "value": words,
        "masked": field.sensitive and words is not None,
    }


def _format_typed(value: object) -> Any:
    return [str(part) for part in value] if isinstance(value, list | tuple) else format_value(value)


def _describe_answer(field: Field, value: object) -> Any:
    if is_blank(value):
        return None
    if field.sensitive:
        return MASK
    labels: dict[object, str] = {option.value: option.label for option in field.options}
    if isinstance(value, list | tuple):
        return [labels.get(str(part), str(part)) for part in value]
    return labels.get(value, value) if isinstance(value, str) else value
