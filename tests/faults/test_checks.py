"""The auditor of the fault runs sees what it is there to see."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from bench.faults.checks import (
    ServerRun,
    StoredCase,
    find_broken_promises,
    find_torn_writes,
    is_overdue,
    measure_lateness,
    read_stored_answer,
)
from bench.faults.ledger import AcknowledgedAnswer, Ledger, Promise
from placet.cases.commands import Expire
from placet.testing.samples import sample_approval, sample_creation, sample_step

CREATION = sample_creation()
OPEN = StoredCase(case=CREATION.case, offer=CREATION.offer, events=CREATION.events)
STEP = sample_step(CREATION.case, sample_approval())
CLOSED = StoredCase(case=STEP.case, offer=CREATION.offer, events=(*CREATION.events, *STEP.events))
NOW = CREATION.case.created_at + timedelta(hours=1)
SECOND = timedelta(seconds=1)


def promise(**changes: Any) -> Promise:
    fields: dict[str, Any] = {
        "case_id": CREATION.case.id,
        "poll_url": "",
        "submit_url": "",
        "submit_token": "",
        "expires_at": CREATION.case.expires_at,
    }
    return Promise(**fields | changes)


def complaints(one: Promise, found: StoredCase | None) -> str:
    return "; ".join(find_broken_promises(one, found, now=NOW))


def test_sound_cases_raise_no_complaint() -> None:
    taken = read_stored_answer(CLOSED.case)
    assert [*find_torn_writes(OPEN), *find_torn_writes(CLOSED)] == []
    assert complaints(promise(), OPEN) == ""
    assert complaints(promise(taken=taken), CLOSED) == ""


def test_a_lost_case_is_noticed() -> None:
    assert "lost" in complaints(promise(), None)


def test_a_lost_answer_is_noticed() -> None:
    assert "lost" in complaints(promise(taken=read_stored_answer(CLOSED.case)), OPEN)


def test_a_changed_answer_is_noticed() -> None:
    other = AcknowledgedAnswer(action="reject", data={}, completed_at=CLOSED.case.closed_at)
    assert "changed" in complaints(promise(taken=other), CLOSED)


def test_an_answer_that_nobody_gave_is_noticed() -> None:
    assert "nobody gave" in complaints(promise(), CLOSED)


def test_an_answer_that_broke_off_may_have_arrived_or_not() -> None:
    sent = AcknowledgedAnswer(action="approve", data={"note": "gladly"})
    assert complaints(promise(unsure=[sent]), CLOSED) == ""
    assert complaints(promise(unsure=[sent]), OPEN) == ""


def test_a_second_result_is_noticed() -> None:
    twice = StoredCase(case=CLOSED.case, offer=CLOSED.offer, events=(*CLOSED.events, CLOSED.events[-1]))
    assert any("ended 2 times" in one for one in find_torn_writes(twice))


def test_a_torn_write_is_noticed() -> None:
    torn = [
        StoredCase(case=CLOSED.case, offer=CLOSED.offer, events=OPEN.events),
        StoredCase(case=OPEN.case, offer=OPEN.offer, events=CLOSED.events),
        StoredCase(case=OPEN.case, offer=None, events=OPEN.events),
        StoredCase(case=OPEN.case, offer=OPEN.offer, events=()),
        StoredCase(case=replace(CLOSED.case, decision=None), offer=CLOSED.offer, events=CLOSED.events),
    ]
    assert all(list(find_torn_writes(one)) for one in torn)


def test_a_case_is_stuck_once_a_running_server_had_time_to_expire_it() -> None:
    deadline = CREATION.case.expires_at
    early = ServerRun(launched_at=deadline - 60 * SECOND, ready_at=deadline - 59 * SECOND)
    late = ServerRun(launched_at=deadline + 9 * SECOND, ready_at=deadline + 10 * SECOND)
    assert not is_overdue(OPEN.case, early, now=deadline + 2 * SECOND)
    assert is_overdue(OPEN.case, early, now=deadline + 4 * SECOND)
    assert not is_overdue(OPEN.case, late, now=deadline + 12 * SECOND)


def test_lateness_counts_from_the_start_that_came_after_the_deadline() -> None:
    deadline = CREATION.case.expires_at
    step = sample_step(CREATION.case, Expire(actor="system"), now=deadline + 12 * SECOND)
    expired = StoredCase(case=step.case, offer=CREATION.offer, events=(*CREATION.events, *step.events))
    lives = [
        ServerRun(launched_at=deadline - 60 * SECOND, ready_at=deadline - 59 * SECOND),
        ServerRun(launched_at=deadline + 9 * SECOND, ready_at=deadline + 10 * SECOND),
    ]
    assert measure_lateness(expired, lives) == 2 * SECOND


def test_a_refusal_needs_a_reason() -> None:
    ledger = Ledger()
    ledger.refused(promise(), 409, now=NOW)
    ledger.refused(promise(), 410, now=NOW)
    ledger.refused(promise(), 503, now=NOW)
    assert len(ledger.surprises) == 3
    ledger.refused(promise(), 410, now=CREATION.case.expires_at)
    ledger.refused(promise(unsure=[AcknowledgedAnswer(action="approve", data={})]), 409, now=NOW)
    assert len(ledger.surprises) == 3
