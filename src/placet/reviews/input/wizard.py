"""A form taken step by step; the server decides every move, so that no page needs a script."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from placet.protocol.answer_problems import Problem
from placet.protocol.form_answers import find_problems, find_visible_fields, find_visible_fields_in_step
from placet.protocol.form_progress import compute_progress
from placet.protocol.forms import Form, collect_defaults
from placet.protocol.poll import Progress
from placet.reviews.form_post import BACK, NEXT, Turn
from placet.reviews.input.review_step import fingerprint, last_page
from placet.text.wording import message

GO_TO = "x-step-"
CHANGED_ELSEWHERE = message("These answers were changed elsewhere meanwhile. Please check them again.")


def take_turn(
    form: Form,
    move: str,
    *,
    step: int,
    asked: frozenset[str],
    values: Mapping[str, Any],
    reviewed: str | None = None,
) -> Turn:
    """Where a move from `step` leads; `asked` are the fields that the page showed.

    `reviewed` is the fingerprint of the answers that the person checked, if the page listed them.
    """
    last = last_page(form)
    here = min(step, last)
    if move == BACK:
        return _at(form, _nearest(form, here - 1, -1, values), values)
    goal = _goal(move, last)
    if goal is not None and goal <= here:
        return _at(form, goal, values)
    if goal is not None or reviewed is not None:
        values = {**collect_defaults(form), **values}  # a review lists them, so they count as answers
    problems = find_problems(form, values)
    if stay := _held_here(form, here, asked, values, problems):
        return stay
    if move == NEXT and here < last:
        return _at(form, _nearest(form, here + 1, 1, values), values)
    if problems:
        return _at(form, _step_of(form, problems), values, problems)
    if goal is not None:
        return _at(form, goal, values)
    if reviewed is not None and reviewed != fingerprint(form, values):
        return replace(_at(form, last, values), problems={"": CHANGED_ELSEWHERE})
    return Turn(values=dict(values), ready=move != NEXT, step=here)


def keep_typing(form: Form, *, step: int, values: Mapping[str, Any]) -> Turn:
    """What stands on one step between two moves: what is asked there now, and what is wrong with it."""
    here = min(step, last_page(form))
    keys = {field.key for field in form.groups[here]} if here < len(form.groups) else set()
    untouched = {key: value for key, value in collect_defaults(form).items() if key in keys}
    filled = {**untouched, **values}
    asked = tuple(field.key for field in find_visible_fields(form, filled) if field.key in keys)
    found = {key: wrong for key, wrong in find_problems(form, filled).items() if key in asked}
    return _at(form, here, values, found, seen=filled, asked=asked)


def reachable(form: Form, values: Mapping[str, Any], wanted: int) -> int:
    """The wanted page, unless an earlier one still needs something."""
    problems = find_problems(form, values)
    furthest = _step_of(form, problems) if problems else last_page(form)
    return min(wanted, furthest)


def _goal(move: str, last: int) -> int | None:
    number = move.removeprefix(GO_TO)
    if number == move or not (number.isascii() and number.isdecimal() and len(number) < 4):
        return None
    return min(int(number), last)


def _nearest(form: Form, number: int, direction: int, values: Mapping[str, Any]) -> int:
    """The first page from here on that has something to show: a step may lose all its questions."""
    while 0 < number < len(form.groups) and form.groups[number]:
        if find_visible_fields_in_step(form, values, number):
            break
        number += direction
    return max(number, 0)


def _held_here(
    form: Form, here: int, asked: frozenset[str], values: Mapping[str, Any], problems: Mapping[str, Problem]
) -> Turn | None:
    if here >= len(form.groups):
        return None
    visible = {field.key for field in find_visible_fields_in_step(form, values, here)}
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
    seen: Mapping[str, Any] | None = None,
    asked: tuple[str, ...] = (),
) -> Turn:
    reached = compute_progress(form, values if seen is None else seen, step + 1)
    return Turn(
        values=dict(values),
        ready=False,
        step=step,
        problems={key: found.message for key, found in (problems or {}).items()},
        more_asked=more_asked,
        progress=Progress(**reached._asdict()),
        asked=asked,
    )
