"""Calls that wait inside a run: what the adapters for CrewAI and smolagents share."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, NotRunReason, Replace, Run, ToolCall, ToolConfig
from placet.hook.frameworks.waiting_calls import CALL_ID, WaitingCalls
from placet.testing.approvals import wait_until
from placet.testing.clock import FakeClock

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


def test_arguments_that_a_person_cannot_see_are_refused() -> None:
    calls = WaitingCalls(HOOK, saver=MemorySaver(), run_id="r")
    with pytest.raises(HookError, match="cannot be shown"):
        calls.decide("pay", {"order": object()}, None)
