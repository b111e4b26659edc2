"""When the clock wants to see a case again, and what it orders then."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.cases.commands import Erase, Expire, Link, Remind, Work
from placet.cases.deadlines import get_due_at, get_due_command
from placet.cases.machine import apply
from placet.protocol.poll import Status
from tests.cases.orders import ENDS_AT, OPENS_AT, ORDERS, REMINDS_AT, TICK, case_in_status, fresh, in_time

KEEP_FOR = timedelta(days=30)
NOON = REMINDS_AT + timedelta(hours=3)


def reminded_often() -> Case:
    case, _ = fresh()
    return replace(case, reminders=(REMINDS_AT, NOON))


def test_reminders_come_one_after_the_other_and_then_the_end() -> None:
    case = reminded_often()
    assert get_due_at(case, keep_for=KEEP_FOR) == REMINDS_AT
    assert get_due_command(case, REMINDS_AT - TICK, keep_for=KEEP_FOR) is None
    first = get_due_command(case, REMINDS_AT, keep_for=KEEP_FOR)
    assert first == Remind(actor="system", reminder_at=REMINDS_AT)
    case = apply(case, first, now=REMINDS_AT, salt="grain").case
    assert get_due_at(case, keep_for=KEEP_FOR) == NOON
    second = get_due_command(case, NOON, keep_for=KEEP_FOR)
    assert second == Remind(actor="system", reminder_at=NOON)
    case = apply(case, second, now=NOON, salt="grain").case
    assert get_due_at(case, keep_for=KEEP_FOR) == ENDS_AT
    assert get_due_command(case, ENDS_AT, keep_for=KEEP_FOR) == Expire(actor="system")


def test_reminders_missed_together_are_sent_as_one() -> None:
    case = reminded_often()
    order = get_due_command(case, NOON + TICK, keep_for=KEEP_FOR)
    assert order == Remind(actor="system", reminder_at=NOON)
    assert apply(case, order, now=NOON + TICK, salt="grain").case.reminders == ()


def test_after_the_deadline_nobody_is_reminded() -> None:
    assert get_due_command(reminded_often(), ENDS_AT, keep_for=KEEP_FOR) == Expire(actor="system")


def test_a_person_at_work_is_left_alone_until_the_deadline() -> None:
    case = apply(reminded_often(), ORDERS[Work], now=OPENS_AT, salt="grain").case
    assert get_due_at(case, keep_for=KEEP_FOR) == ENDS_AT


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.EXPIRED, Status.CANCELLED])
def test_a_closed_case_is_erased_when_its_retention_ends(status: Status) -> None:
    case, _ = case_in_status(status)
    assert case.closed_at is not None
    end = case.closed_at + KEEP_FOR
    assert get_due_at(case, keep_for=KEEP_FOR) == end
    assert get_due_command(case, end - TICK, keep_for=KEEP_FOR) is None
    assert get_due_command(case, end, keep_for=KEEP_FOR) == Erase(actor="system")


def test_an_erased_case_is_never_looked_at_again() -> None:
    case, _ = case_in_status(Status.COMPLETED)
    bare = apply(case, ORDERS[Erase], now=ENDS_AT, salt="grain").case
    assert get_due_at(bare, keep_for=KEEP_FOR) is None
    assert get_due_command(bare, ENDS_AT + 10 * KEEP_FOR, keep_for=KEEP_FOR) is None


def test_a_follow_up_does_not_prolong_the_earlier_case() -> None:
    case, _ = case_in_status(Status.COMPLETED)
    linked = apply(case, ORDERS[Link], now=in_time(case), salt="grain").case
    assert get_due_at(linked, keep_for=KEEP_FOR) == get_due_at(case, keep_for=KEEP_FOR)


def test_whatever_is_due_moves_the_case_so_that_no_sweep_runs_forever() -> None:
    for status in Status:
        case, _ = case_in_status(status)
        now = ENDS_AT + 2 * KEEP_FOR
        while (order := get_due_command(case, now, keep_for=KEEP_FOR)) is not None:
            step = apply(case, order, now=now, salt="grain")
            assert step.events
            case = step.case
        assert case.erased_at == now
