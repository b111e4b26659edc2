"""The auditor of the fault runs sees what it is there to see."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from bench.faults.checks import Found, Life, answer_of, broken_promises, half_written, lateness, stuck
from bench.faults.ledger import Answered, Ledger, Promise
from placet.cases.commands import Expire
from placet.testing.samples import sample_approval, sample_creation, sample_step

FILING = sample_creation()
OPEN = Found(case=FILING.case, offer=FILING.offer, events=FILING.events)
STEP = sample_step(FILING.case, sample_approval())
CLOSED = Found(case=STEP.case, offer=FILING.offer, events=(*FILING.events, *STEP.events))
NOW = FILING.case.created_at + timedelta(hours=1)
SECOND = timedelta(seconds=1)


def promise(**changes: Any) -> Promise:
    fields: dict[str, Any] = {
        "case_id": FILING.case.id,
        "poll_url": "",
        "submit_url": "",
        "submit_token": "",
        "expires_at": FILING.case.expires_at,
    }
    return Promise(**fields | changes)


def complaints(one: Promise, found: Found | None) -> str:
    return "; ".join(broken_promises(one, found, now=NOW))


def test_sound_cases_raise_no_complaint() -> None:
    taken = answer_of(CLOSED.case)
    assert [*half_written(OPEN), *half_written(CLOSED)] == []
    assert complaints(promise(), OPEN) == ""
    assert complaints(promise(taken=taken), CLOSED) == ""


def test_a_lost_case_is_noticed() -> None:
    assert "lost" in complaints(promise(), None)


def test_a_lost_answer_is_noticed() -> None:
    assert "lost" in complaints(promise(taken=answer_of(CLOSED.case)), OPEN)


def test_a_changed_answer_is_noticed() -> None:
    other = Answered(action="reject", data={}, completed_at=CLOSED.case.closed_at)
    assert "changed" in complaints(promise(taken=other), CLOSED)


def test_an_answer_that_nobody_gave_is_noticed() -> None:
    assert "nobody gave" in complaints(promise(), CLOSED)


def test_an_answer_that_broke_off_may_have_arrived_or_not() -> None:
    sent = Answered(action="approve", data={"note": "gladly"})
    assert complaints(promise(unsure=[sent]), CLOSED) == ""
    assert complaints(promise(unsure=[sent]), OPEN) == ""


def test_a_second_result_is_noticed() -> None:
    twice = Found(case=CLOSED.case, offer=CLOSED.offer, events=(*CLOSED.events, CLOSED.events[-1]))
    assert any("ended 2 times" in one for one in half_written(twice))


def test_a_torn_write_is_noticed() -> None:
    torn = [
        Found(case=CLOSED.case, offer=CLOSED.offer, events=OPEN.events),
        Found(case=OPEN.case, offer=OPEN.offer, events=CLOSED.events),
        Found(case=OPEN.case, offer=None, events=OPEN.events),
        Found(case=OPEN.case, offer=OPEN.offer, events=()),
        Found(case=replace(CLOSED.case, decision=None), offer=CLOSED.offer, events=CLOSED.events),
    ]
    assert all(list(half_written(one)) for one in torn)


def test_a_case_is_stuck_once_a_running_server_had_time_to_expire_it() -> None:
    deadline = FILING.case.expires_at
    early = Life(launched_at=deadline - 60 * SECOND, ready_at=deadline - 59 * SECOND)
    late = Life(launched_at=deadline + 9 * SECOND, ready_at=deadline + 10 * SECOND)
    assert not stuck(OPEN.case, early, now=deadline + 2 * SECOND)
    assert stuck(OPEN.case, early, now=deadline + 4 * SECOND)
    assert not stuck(OPEN.case, late, now=deadline + 12 * SECOND)


def test_lateness_counts_from_the_start_that_came_after_the_deadline() -> None:
    deadline = FILING.case.expires_at
    step = sample_step(FILING.case, Expire(actor="system"), now=deadline + 12 * SECOND)
    expired = Found(case=step.case, offer=FILING.offer, events=(*FILING.events, *step.events))
    lives = [
        Life(launched_at=deadline - 60 * SECOND, ready_at=deadline - 59 * SECOND),
        Life(launched_at=deadline + 9 * SECOND, ready_at=deadline + 10 * SECOND),
    ]
    assert lateness(expired, lives) == 2 * SECOND


def test_a_refusal_needs_a_reason() -> None:
    ledger = Ledger()
    ledger.refused(promise(), 409, now=NOW)
    ledger.refused(promise(), 410, now=NOW)
    ledger.refused(promise(), 503, now=NOW)
    assert len(ledger.surprises) == 3
    ledger.refused(promise(), 410, now=FILING.case.expires_at)
    ledger.refused(promise(unsure=[Answered(action="approve", data={})]), 409, now=NOW)
    assert len(ledger.surprises) == 3
