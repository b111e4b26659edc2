"""A form taken step by step; the server decides every move, so that no page needs a script."""

from collections.abc import Mapping
from typing import Any

from assent.protocol.form_answers import find_problems, visible_in_step
from assent.protocol.form_progress import progress
from assent.protocol.forms import Form
from assent.protocol.poll import Progress
from assent.protocol.problems import Problem
from assent.reviews.turn import BACK, NEXT, Turn


def take_turn(form: Form, move: str, *, step: int, asked: frozenset[str], values: Mapping[str, Any]) -> Turn:
    """Where a move from `step` leads; `asked` are the fields that the page showed."""
    here = min(step, len(form.groups) - 1)
    if move == BACK:
        return _at(form, max(here - 1, 0), values)
    problems = find_problems(form, values)
    if stay := _held_here(form, here, asked, values, problems):
        return stay
    if move == NEXT and here < len(form.groups) - 1:
        return _at(form, here + 1, values)
    if problems:
        return _at(form, _step_of(form, problems), values, problems)
    return Turn(values=dict(values), ready=move != NEXT, step=here)


def _held_here(
    form: Form, here: int, asked: frozenset[str], values: Mapping[str, Any], problems: Mapping[str, Problem]
) -> Turn | None:
    visible = {field.key for field in visible_in_step(form, values, here)}
    wrong = {key: found for key, found in problems.items() if key in visible & asked}
    unasked = visible - asked
    if not wrong and not unasked:
        return None
    return _at(form, here, values, wrong, more_asked=bool(unasked & _conditional(form)))


def _conditional(form: Form) -> set[str]:
    return {field.key for field in form.every_field if field.conditional}


def _step_of(form: Form, problems: Mapping[str, Problem]) -> int:
    groups = enumerate(form.groups)
    return next((number for number, group in groups if any(field.key in problems for field in group)), 0)


def _at(
    form: Form,
    step: int,
    values: Mapping[str, Any],
    problems: Mapping[str, Problem] | None = None,
    *,
    more_asked: bool = False,
) -> Turn:
    reached = progress(form, values, step + 1)
    return Turn(
        values=dict(values),
        ready=False,
        step=step,
        problems={key: found.message for key, found in (problems or {}).items()},
        more_asked=more_asked,
        progress=Progress(**reached._asdict()),
    )
