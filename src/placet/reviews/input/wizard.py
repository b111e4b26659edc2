"""Multi-step forms. The server decides every move, so that pages work without JavaScript."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from placet.protocol.answer_problems import Problem
from placet.protocol.form_answers import find_problems, find_visible_fields, find_visible_fields_in_step
from placet.protocol.form_progress import compute_progress
from placet.protocol.forms import Form, collect_defaults
from placet.protocol.poll import Progress
from placet.reviews.form_post import BACK, NEXT, PostResult
from placet.reviews.input.review_step import digest_answers, get_last_page
from placet.text.wording import message

GO_TO = "x-step-"
CHANGED_ELSEWHERE = message("These answers were changed elsewhere meanwhile. Please check them again.")


def apply_move(
    form: Form,
    move: str,
    *,
    step: int,
    asked: frozenset[str],
    values: Mapping[str, Any],
    reviewed: str | None = None,
) -> PostResult:
    """Return the result of a move from `step`; `asked` are the fields that the page showed.

    `reviewed` is the fingerprint of the answers that the reviewer checked, if the page listed them.
    """
    last = get_last_page(form)
    here = min(step, last)
    if move == BACK:
        return _show_step(form, _find_nearest_step(form, here - 1, -1, values), values)
    goal = _parse_requested_step(move, last)
    if goal is not None and goal <= here:
        return _show_step(form, goal, values)
    if goal is not None or reviewed is not None:
        values = {
            **collect_defaults(form),
            **values,
        }  # the review step lists defaults, so they count as answers
    problems = find_problems(form, values)
    if stay := _stay_on_step(form, here, asked, values, problems):
        return stay
    if move == NEXT and here < last:
        return _show_step(form, _find_nearest_step(form, here + 1, 1, values), values)
    if problems:
        return _show_step(form, _find_problem_step(form, problems), values, problems)
    if goal is not None:
        return _show_step(form, goal, values)
    if reviewed is not None and reviewed != digest_answers(form, values):
        return replace(_show_step(form, last, values), problems={"": CHANGED_ELSEWHERE})
    return PostResult(values=dict(values), ready=move != NEXT, step=here)


def read_step_draft(form: Form, *, step: int, values: Mapping[str, Any]) -> PostResult:
    """Return the state of a step that is being filled in: its visible questions and their problems."""
    here = min(step, get_last_page(form))
    keys = {field.key for field in form.groups[here]} if here < len(form.groups) else set()
    untouched = {key: value for key, value in collect_defaults(form).items() if key in keys}
    filled = {**untouched, **values}
    asked = tuple(field.key for field in find_visible_fields(form, filled) if field.key in keys)
    found = {key: wrong for key, wrong in find_problems(form, filled).items() if key in asked}
    return _show_step(form, here, values, found, seen=filled, asked=asked)


def find_reachable_step(form: Form, values: Mapping[str, Any], wanted: int) -> int:
    """Return the wanted step, or the first incomplete one before it."""
    problems = find_problems(form, values)
    furthest = _find_problem_step(form, problems) if problems else get_last_page(form)
    return min(wanted, furthest)


def _parse_requested_step(move: str, last: int) -> int | None:
    number = move.removeprefix(GO_TO)
    if number == move or not (number.isascii() and number.isdecimal() and len(number) < 4):
        return None
    return min(int(number), last)


def _find_nearest_step(form: Form, number: int, direction: int, values: Mapping[str, Any]) -> int:
    """Return the nearest step in this direction with visible fields; conditions can hide all of them."""
    while 0 < number < len(form.groups) and form.groups[number]:
        if find_visible_fields_in_step(form, values, number):
            break
        number += direction
    return max(number, 0)


def _stay_on_step(
    form: Form, here: int, asked: frozenset[str], values: Mapping[str, Any], problems: Mapping[str, Problem]
) -> PostResult | None:
    if here >= len(form.groups):
        return None
    visible = {field.key for field in find_visible_fields_in_step(form, values, here)}
    wrong = {key: found for key, found in problems.items() if key in visible & asked}
    unasked = visible - asked
    if not wrong and not unasked:
        return None
    return _show_step(form, here, values, wrong, more_asked=bool(unasked & _list_conditional_keys(form)))


def _list_conditional_keys(form: Form) -> set[str]:
    return {field.key for field in form.every_field if field.conditional}


def _find_problem_step(form: Form, problems: Mapping[str, Problem]) -> int:
    groups = enumerate(form.groups)
    return next((number for number, group in groups if any(field.key in problems for field in group)), 0)


def _show_step(
    form: Form,
    step: int,
    values: Mapping[str, Any],
    problems: Mapping[str, Problem] | None = None,
    *,
    more_asked: bool = False,
    seen: Mapping[str, Any] | None = None,
    asked: tuple[str, ...] = (),
) -> PostResult:
    reached = compute_progress(form, values if seen is None else seen, step + 1)
    return PostResult(
        values=dict(values),
        ready=False,
        step=step,
        problems={key: found.message for key, found in (problems or {}).items()},
        more_asked=more_asked,
        progress=Progress(**reached._asdict()),
        asked=asked,
    )
