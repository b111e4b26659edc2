"""Compute a person's progress in a form (spec 10.3.4)."""

from collections.abc import Mapping
from typing import NamedTuple

from placet.protocol.field_values import is_blank
from placet.protocol.fields import Field
from placet.protocol.form_answers import find_field_problem, find_visible_fields
from placet.protocol.forms import Form


class FormProgress(NamedTuple):
    """Steps are counted from 1; all visible fields are counted, optional ones too."""

    current_step: int
    total_steps: int
    completed_fields: int
    total_fields: int


def compute_progress(
    form: Form, values: Mapping[str, object], current_step: int | None = None
) -> FormProgress:
    """Return the progress; the default `current_step` is the first one that lacks a required answer."""
    visible = find_visible_fields(form, values)
    wrong = {field.key for field in visible if find_field_problem(field, values.get(field.key))}
    lacking = {field.key for field in visible if field.required} & wrong
    completed = [field for field in visible if field.key not in wrong and not is_blank(values.get(field.key))]
    steps = form.groups
    reached = _find_first_incomplete_step(steps, lacking) if current_step is None else current_step
    return FormProgress(
        current_step=min(max(reached, 1), len(steps)),
        total_steps=len(steps),
        completed_fields=len(completed),
        total_fields=len(visible),
    )


def _find_first_incomplete_step(steps: tuple[tuple[Field, ...], ...], lacking: set[str]) -> int:
    stops = (number for number, group in enumerate(steps, 1) if any(field.key in lacking for field in group))
    return next(stops, len(steps))
