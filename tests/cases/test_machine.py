"""The machine against expectations written down by hand, not read off its own table."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.cases.case import Case
from placet.cases.commands import (
    COMMANDS,
    Cancel,
    Command,
    Erase,
    Expire,
    PassOn,
    RecordNotification,
    Remind,
    Respond,
    View,
    Work,
)
from placet.cases.events import Event, find_broken_link
from placet.cases.machine import TRANSITIONS, apply, require
from placet.errors import AlreadyClosed, CaseExpired, CaseNotCompleted, CaseStillOpen, ContentAltered
from placet.protocol.poll import Progress, Status
from placet.protocol.stream import COMPLETED
from tests.cases.orders import ENDS_AT, OPENS_AT, ORDERS, REMINDS_AT, TICK, case_in_status, fresh, in_time

EXPECTED = """
            pending      opened       in_progress  completed  expired  cancelled
    View    opened       -            -            -          -        -
    Work    in_progress  in_progress  -            409        410      409
    Respond completed    completed    completed    409        410      409
    Cancel  cancelled    cancelled    cancelled    409        410      409
    HandBack    pending      opened       in_progress  409    410      409
    HandBackAsLast cancelled cancelled    cancelled    409    410      409
    Expire  -            -            -            -          -        -
    Remind  pending      opened       -            -          -        -
    WarnOfExpiry pending opened       in_progress  -          -        -
    RecordNotification pending opened in_progress  completed  expired  cancelled
    PassOn  pending      opened       in_progress  409        410      409
    Link    400          400          400          completed  400      400
    Erase   -            -            -            completed  expired  cancelled
    UseGrant    -        -            -            completed  -        -
    MarkAltered pending  opened       in_progress  completed  expired  cancelled
    RevokeGrant -        -            -            completed  -        -
    ReportCalls open     open         open         completed  expired  cancelled
"""
REFUSALS = {
    "400": CaseNotCompleted,
    "409": AlreadyClosed,
    "410": CaseExpired,
    "open": CaseStillOpen,
}
NAMES = {command.__name__: command for command in COMMANDS}


def expectations() -> list[tuple[Status, type[Command], str]]:
    head, *lines = [line.split() for line in EXPECTED.strip().splitlines()]
    return [
        (Status(status), NAMES[name], outcome)
        for name, *outcomes in lines
        for status, outcome in zip(head, outcomes, strict=True)
    ]


def test_every_pair_of_status_and_command_has_a_rule_and_an_expectation() -> None:
    pairs = {(status, command) for status, command, _ in expectations()}
    assert pairs == set(product(Status, COMMANDS)) == set(TRANSITIONS)
    assert len(pairs) == 102


@pytest.mark.parametrize(("status", "command", "outcome"), expectations())
def test_an_order_in_time_does_what_is_expected(status: Status, command: type[Command], outcome: str) -> None:
    case, _ = case_in_status(status)
    if outcome in REFUSALS:
        with pytest.raises(REFUSALS[outcome]):
            apply(case, ORDERS[command], now=in_time(case), salt="grain")
        return
    step = apply(case, ORDERS[command], now=in_time(case), salt="grain")
    assert step.expected_version == case.version
    if outcome == "-":
        assert step.case == case
        assert step.events == ()
    else:
        assert step.case.status == outcome
        assert step.events


@pytest.mark.parametrize("command", [View, Work, Respond, Cancel, PassOn])
@pytest.mark.parametrize("status", [Status.PENDING, Status.OPENED, Status.IN_PROGRESS])
def test_a_person_or_owner_is_late_from_the_very_moment_of_expiry(
    status: Status, command: type[Command]
) -> None:
    case, _ = case_in_status(status)
    apply(case, ORDERS[command], now=ENDS_AT - TICK, salt="grain")
    for now in (ENDS_AT, ENDS_AT + TICK):
        with pytest.raises(CaseExpired):
            apply(case, ORDERS[command], now=now, salt="grain")
        with pytest.raises(CaseExpired):
            require(case, command, now=now)


@pytest.mark.parametrize("status", [Status.PENDING, Status.OPENED, Status.IN_PROGRESS])
def test_a_case_expires_at_its_moment_and_not_before(status: Status) -> None:
    case, _ = case_in_status(status)
    assert apply(case, ORDERS[Expire], now=ENDS_AT - TICK, salt="grain").events == ()
    step = apply(case, ORDERS[Expire], now=ENDS_AT, salt="grain")
    assert step.case.status is Status.EXPIRED
    assert step.case.closed_at == ENDS_AT


def test_a_timer_that_fires_late_reports_the_deadline_not_its_own_delay() -> None:
    case, _ = fresh()
    step = apply(case, ORDERS[Expire], now=ENDS_AT + 90 * TICK, salt="grain")
    assert step.case.closed_at == ENDS_AT
    assert step.events[0].at == ENDS_AT + 90 * TICK


def test_work_on_an_unopened_case_opens_it_too() -> None:
    case, _ = fresh()
    step = apply(case, ORDERS[Work], now=OPENS_AT + TICK, salt="grain")
    assert [event.type for event in step.events] == ["review.opened", "review.in_progress"]
    assert step.case.opened_at == OPENS_AT + TICK
    assert step.case.version == case.version + 2


def test_saving_again_without_getting_further_is_no_news() -> None:
    case, _ = case_in_status(Status.IN_PROGRESS)
    again = apply(case, ORDERS[Work], now=in_time(case), salt="grain")
    further = Work(actor="person", progress=Progress(completed_fields=2, total_fields=4))
    assert again.events == ()
    assert len(apply(case, further, now=in_time(case), salt="grain").events) == 1


def test_nobody_is_reminded_of_what_they_are_working_on() -> None:
    case, _ = case_in_status(Status.IN_PROGRESS)
    assert case.reminders == ()
    assert apply(case, ORDERS[Remind], now=REMINDS_AT, salt="grain").events == ()


@pytest.mark.parametrize("status", [Status.PENDING, Status.OPENED])
def test_a_reminder_is_due_once_and_dated_when_somebody_was_sent_it(status: Status) -> None:
    case, _ = case_in_status(status)
    step = apply(case, ORDERS[Remind], now=REMINDS_AT, salt="grain")
    assert (step.case.reminders, step.case.reminder_sent_at) == ((), None)
    assert b"expires in 18 hours" in (step.events[0].data or b"")
    later = REMINDS_AT + TICK
    sent = apply(step.case, ORDERS[RecordNotification], now=later, salt="grain")
    assert sent.case.reminder_sent_at == later
    assert [event.type for event in sent.events] == ["review.notified"]


def test_a_message_that_was_sent_too_late_is_recorded_and_reminds_nobody() -> None:
    case, _ = case_in_status(Status.COMPLETED)
    step = apply(case, ORDERS[RecordNotification], now=in_time(case), salt="grain")
    assert (len(step.events), step.case.reminder_sent_at) == (1, None)
    erased = apply(step.case, ORDERS[Erase], now=in_time(case), salt="grain").case
    assert apply(erased, ORDERS[RecordNotification], now=in_time(case), salt="grain").events == ()


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.EXPIRED, Status.CANCELLED])
def test_erasing_takes_the_content_and_does_it_once(status: Status) -> None:
    case, _ = case_in_status(status)
    step = apply(case, ORDERS[Erase], now=ENDS_AT, salt="grain")
    bare = step.case
    assert (bare.decision, bare.reason, bare.callback_url, bare.erased_at) == (None, None, None, ENDS_AT)
    assert (bare.status, bare.closed_at) == (case.status, case.closed_at)
    assert apply(bare, ORDERS[Erase], now=ENDS_AT, salt="grain").events == ()


def test_the_first_event_is_the_first_version() -> None:
    case, events = fresh()
    assert (case.version, case.chain) == (1, events[0].digest)
    assert events[0].type == "review.created"


def test_a_step_leaves_the_case_it_was_given_alone() -> None:
    case, _ = fresh()
    copy = case
    apply(case, ORDERS[Respond], now=OPENS_AT, salt="grain")
    assert copy == case
    assert case.status is Status.PENDING


def follow(orders: list[tuple[Command, int]]) -> None:
    """Give these orders, each so many hours after opening, and hold the case to what must never break."""
    case, events = fresh()
    for order, hours in orders:
        before = case
        try:
            step = apply(case, order, now=OPENS_AT + hours * (ENDS_AT - OPENS_AT) / 24, salt="grain")
        except (AlreadyClosed, CaseExpired, CaseNotCompleted, CaseStillOpen, ContentAltered):
            continue
        case, events = step.case, [*events, *step.events]
        hold_to_the_rules(before, case, events)


def hold_to_the_rules(before: Case, case: Case, events: list[Event]) -> None:
    if before.status.terminal:
        assert case.status is before.status
        assert case.closed_at == before.closed_at
        assert case.decision == (None if case.erased_at else before.decision)
    assert case.version == len(events)
    assert find_broken_link(events, head=case.chain) is None
    if before.altered_at is not None and before.live:
        assert case.status is not Status.COMPLETED
    completed = [event for event in events if event.type == COMPLETED]
    assert len(completed) == (case.status is Status.COMPLETED)
    assert (case.decision is not None) == (case.status is Status.COMPLETED and case.erased_at is None)
    assert (case.closed_at is not None) == case.status.terminal


def test_no_four_orders_break_a_case() -> None:
    for orders in product(ORDERS.values(), repeat=4):
        follow([(order, 23) for order in orders])


@given(st.lists(st.tuples(st.sampled_from(list(ORDERS.values())), st.integers(0, 30)), max_size=12))
def test_no_orders_at_any_time_break_a_case(orders: list[tuple[Command, int]]) -> None:
    follow(orders)
