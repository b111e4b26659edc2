"""A form as its page shows it: which control each field gets, what stands in it, and nothing sensitive."""

from collections.abc import Mapping
from typing import Any

from assent.protocol.field_values import is_blank
from assent.protocol.fields import CUSTOM, Field
from assent.protocol.form_answers import visible_fields
from assent.protocol.forms import Form, default_answers
from assent.reviews.page_form import shown

MASK = "••••••••"
MOST_RADIOS = 6
CONTROLS = {
    "text": "line",
    "textarea": "lines",
    "number": "number",
    "range": "number",
    "date": "date",
    "email": "email",
    "url": "url",
    "boolean": "yes_no",
    "select": "menu",
    "multiselect": "checks",
    CUSTOM: "line",
}


def shown_form(form: Form, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps in order, each with the fields visible for these values and a recap of all answers."""
    filled = {**default_answers(form), **values}
    visible = {field.key for field in visible_fields(form, filled)}
    words = [(step.title, step.description) for step in form.steps] if form.steps else [("", "")]
    return [
        {
            "title": title,
            "description": description,
            "fields": [_shown_field(field, filled) for field in group if field.key in visible],
            "recap": [
                {"key": field.key, "label": field.label, "value": _words(field, filled.get(field.key))}
                for field in group
                if field.key in visible
            ],
        }
        for (title, description), group in zip(words, form.groups, strict=True)
    ]


def recap_of(form: Form, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The answers given, under the form's own labels."""
    return [(field.label, _words(field, data[field.key])) for field in form.every_field if field.key in data]


def _shown_field(field: Field, values: Mapping[str, Any]) -> dict[str, Any]:
    value = values.get(field.key)
    smallest, largest = field.bounds
    return {
        "key": field.key,
        "label": field.label,
        "control": _control(field),
        "required": field.required,
        "hint": field.hint,
        "placeholder": field.placeholder,
        "options": [{"value": option.value, "label": option.label} for option in field.options],
        "smallest": smallest,
        "largest": largest,
        "sensitive": field.sensitive,
        "saved": field.sensitive and not is_blank(value),
        "typed": "" if field.sensitive or is_blank(value) else _typed(value),
    }


def _control(field: Field) -> str:
    if field.kind == "select" and len(field.options) <= MOST_RADIOS:
        return "radios"
    return CONTROLS[field.kind]


def _typed(value: object) -> Any:
    return [str(part) for part in value] if isinstance(value, list | tuple) else shown(value)


def _words(field: Field, value: object) -> Any:
    if is_blank(value):
        return None
    if field.sensitive:
        return MASK
    labels: dict[object, str] = {option.value: option.label for option in field.options}
    if isinstance(value, list | tuple):
        return [labels.get(str(part), str(part)) for part in value]
    return labels.get(value, value) if isinstance(value, str) else value
