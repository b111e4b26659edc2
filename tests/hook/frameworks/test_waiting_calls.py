"""Calls that wait inside a run: what the adapters for CrewAI and smolagents share."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, NotRunReason, Replace, Run, ToolCall, ToolConfig
from placet.hook.case_outcome import CaseOutcome
from placet.hook.frameworks.waiting_calls import CALL_ID, WaitingCalls
from placet.hook.interruption import InterruptionMetadata
from placet.testing.clock import FakeClock
from placet.testing.waiting import wait_until

PAY = {"order": "17"}
HOOK = HumanInTheLoopHook({"pay": ToolConfig(timeout=60)})


def test_a_call_waits_until_another_thread_answers() -> None:
    calls = WaitingCalls(HOOK, saver=MemorySaver(), run_id="r")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(calls.decide, "pay", PAY, None)
        wait_until(lambda: bool(calls.waiting()))
        assert not done.done()
        calls.answer(calls.waiting()[0].approve_all())
        decided = done.result(10)
    assert decided.permission == Run(call=ToolCall(id=CALL_ID, name="pay", arguments=PAY))
    assert calls.finish(decided, "paid") == "paid"
    assert calls.waiting() == []


def test_a_repeated_run_gets_the_results_of_the_calls_that_it_makes_again() -> None:
    saver = MemorySaver()
    begun = WaitingCalls(HOOK, saver=saver, run_id="r", ask=lambda stopped: stopped.approve_all())
    first = begun.decide("pay", PAY, None)
    assert isinstance(first.permission, Run)
    begun.finish(first, "paid")
    repeated = WaitingCalls(HOOK, saver=saver, run_id="r", ask=lambda stopped: stopped.approve_all())
    assert repeated.decide("pay", PAY, None).permission == Replace(result="paid")
    again = repeated.decide("pay", PAY, None)
    assert isinstance(again.permission, Run), "the second equal call of a run is another call"
    other = WaitingCalls(HOOK, saver=saver, run_id="other", ask=lambda stopped: stopped.reject_all("no"))
    assert isinstance(other.decide("pay", PAY, None).permission, Replace)


def test_a_call_that_nobody_decides_is_rejected_when_its_time_is_over() -> None:
    clock = FakeClock()
    calls = WaitingCalls(HOOK, saver=MemorySaver(clock=clock), run_id="r", poll_interval=0.01, clock=clock)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(calls.decide, "pay", PAY, None)
        wait_until(lambda: bool(calls.waiting()))
        clock.advance(timedelta(minutes=1))
        permission = done.result(10).permission
    assert isinstance(permission, Replace)
    assert permission.reason is NotRunReason.TIMED_OUT


class FollowedReviews:
    """One case, which is decided while somebody follows it."""

    def __init__(self) -> None:
        self.outcome: CaseOutcome | None = None
        self.reported: list[str] = []

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        return {"case_id": interruption.id}

    def poll_case(self, case: Any) -> CaseOutcome | None:
        return self.outcome

    def withdraw(self, case: Any, reason: str) -> None:
        raise AssertionError("the decision is made in the case")

    def wait_for_case(self, case: Any, at_most: float) -> None:
        self.outcome = CaseOutcome(status="decided", decisions={CALL_ID: "approve"})

    def report_calls(self, case: Any, receipts: Any) -> None:
        self.reported += [receipt["outcome"] for receipt in receipts]


def test_a_call_continues_when_its_case_closes_and_reports_that_it_ran() -> None:
    reviews = FollowedReviews()
    calls = WaitingCalls(HOOK, saver=MemorySaver(), run_id="r", poll_interval=300, reviews=reviews)
    with ThreadPoolExecutor(1) as pool:
        decided = pool.submit(calls.decide, "pay", PAY, None).result(10)
    assert isinstance(decided.permission, Run)
    calls.finish(decided, "paid")
    assert calls.approver.gate.outbox.wait_until_sent(10)
    assert reviews.reported == ["ran"]


def test_arguments_that_a_person_cannot_see_are_refused() -> None:
    calls = WaitingCalls(HOOK, saver=MemorySaver(), run_id="r")
    with pytest.raises(HookError, match="cannot be shown"):
        calls.decide("pay", {"order": object()}, None)


def test_a_call_that_another_run_makes_is_waited_for() -> None:
    saver = MemorySaver()
    options: Any = {"run_id": "r", "ask": lambda stopped: stopped.approve_all(), "poll_interval": 0.01}
    first, second = (WaitingCalls(HOOK, saver=saver, **options) for _ in range(2))
    begun = first.decide("pay", PAY, None)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(second.decide, "pay", PAY, None)
        first.finish(begun, "paid")
        assert waits.result(10).permission == Replace(result="paid")


def test_a_repeated_run_knows_which_call_was_stopped_before() -> None:
    saver = MemorySaver()
    first = WaitingCalls(HOOK, saver=saver, run_id="r", ask=lambda stopped: stopped.reject_all("no"))
    assert not first.was_stopped("pay", PAY)
    first.decide("pay", PAY, None)
    assert not first.was_stopped("pay", PAY), "the next equal call is another one"
    repeated = WaitingCalls(HOOK, saver=saver, run_id="r")
    assert repeated.was_stopped("pay", PAY)
    assert not repeated.was_stopped("pay", {"order": "18"})
