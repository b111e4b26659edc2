"""The life of a stopped call, against expectations written by hand, and in every order of five events."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import placet.hook
from placet.cases.execution_outcomes import NotRunReason
from placet.errors import AlreadyDecided, HookError, ThreadBusy, ThreadPaused
from placet.hook.turn import NOT_RUN, TRANSITIONS, CallEvent, CallState, apply

EXPECTED = """
              waiting     approved     running   ran  failed unknown answered rejected timed_out withdrawn superseded not_claimed
    approve   approved    -            -         -    -      -       decided  decided  decided   decided   decided    -
    answer    answered    decided      decided   decided decided decided -    decided  decided   decided   decided    decided
    reject    rejected    decided      decided   decided decided decided decided -     -         -         -          decided
    lapse     timed_out   -            -         -    -      -       -        -        -         -         -          -
    withdraw  withdrawn   -            -         -    -      -       -        -        -         -         -          -
    supersede superseded  superseded   -         -    -      -       -        -        -         -         -          -
    ask_again -           waiting      decided   -    -      -       -        -        -         -         -          -
    claim     undecided   running      busy      -    -      -       -        -        -         -         -          -
    reclaim   undecided   running      -         -    -      -       -        -        -         -         -          -
    lose      undecided   -            unknown   -    -      -       -        -        -         -         -          -
    give_back -           -            approved  -    -      -       -        -        -         -         -          -
    finish    undecided   ran          ran       -    -      -       -        -        -         -         -          -
    fail      undecided   failed       failed    -    -      -       -        -        -         -         -          -
    release   withdrawn   not_claimed  unknown   -    -      -       -        -        -         -         -          -
"""  # noqa: E501 - a table
REFUSALS: dict[str, type[HookError]] = {
    "decided": AlreadyDecided,
    "undecided": ThreadPaused,
    "busy": ThreadBusy,
}
ENDED = frozenset(CallState) - {CallState.WAITING, CallState.APPROVED, CallState.RUNNING}
BEGUN = {CallState.RUNNING, CallState.RAN, CallState.FAILED, CallState.UNKNOWN}


def list_expectations() -> list[tuple[CallState, CallEvent, str]]:
    head, *lines = [line.split() for line in EXPECTED.strip().splitlines()]
    return [
        (CallState(state), CallEvent(event), outcome)
        for event, *outcomes in lines
        for state, outcome in zip(head, outcomes, strict=True)
    ]


def test_every_pair_of_state_and_event_has_a_rule_and_an_expectation() -> None:
    pairs = {(state, event) for state in CallState for event in CallEvent}
    assert {(state, event) for state, event, _ in list_expectations()} == pairs
    assert {(state, event) for state, row in TRANSITIONS.items() for event in row} == pairs


@pytest.mark.parametrize(("state", "event", "outcome"), list_expectations())
def test_the_table_is_as_expected(state: CallState, event: CallEvent, outcome: str) -> None:
    if outcome in REFUSALS:
        with pytest.raises(REFUSALS[outcome]):
            apply(state, event)
    else:
        assert apply(state, event) is (state if outcome == "-" else CallState(outcome))


def walk(
    state: CallState, is_approved: bool, before: tuple[CallEvent, ...], left: int
) -> Iterator[CallState]:
    """Yield the states of a call in every order of events; `is_approved` is kept without the table."""
    yield state
    for event in CallEvent if left else ():
        try:
            following = apply(state, event)
        except HookError:
            following = state
        counts = is_approved or (event is CallEvent.APPROVE and state is CallState.WAITING)
        if event is CallEvent.ASK_AGAIN and state is CallState.APPROVED:
            counts = False
        events = (*before, event)
        assert state not in ENDED or following is state, f"{events}: an ended call stays ended"
        assert following not in BEGUN or counts, f"{events}: only an approved call begins"
        yield from walk(following, counts, events, left - 1)


def test_in_every_order_of_five_events_only_approved_calls_begin_and_ended_ones_stay_so() -> None:
    assert set(walk(CallState.WAITING, False, (), 5)) == set(CallState)


def test_every_state_in_which_a_call_did_not_run_has_a_reason() -> None:
    assert set(NOT_RUN) == ENDED - {CallState.RAN, CallState.ANSWERED}
    assert set(NOT_RUN.values()) == set(NotRunReason)


def test_one_module_calls_the_validator_of_answers() -> None:
    root = Path(placet.hook.__file__).parents[1]
    callers = [path for path in root.rglob("*.py") if "validate_answers" in list_called_names(path)]
    assert [str(path.relative_to(root)) for path in callers] == ["hook/turn.py"]


def list_called_names(path: Path) -> set[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {getattr(called, "id", getattr(called, "attr", "")) for called in calls}
