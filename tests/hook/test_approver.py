"""The approver that adapters of any framework ask before each call and tell after it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import HookError, ThreadBusy
from placet.hook import (
    Approver,
    HumanInTheLoopHook,
    MemorySaver,
    NotRunReason,
    Replace,
    Run,
    Saver,
    ToolCall,
    ToolConfig,
    Wait,
)
from placet.hook.approval_rules import State
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.clock import FakeClock

PAY = ToolCall(id="c1", name="pay", arguments={"to": "ACME"})
LOOK = ToolCall(id="c2", name="look")
HOOK = HumanInTheLoopHook({"pay": True})


def make_approver(saver: Saver | None = None, **options: Any) -> Approver:
    return Approver(options.pop("hook", HOOK), saver=saver or MemorySaver(), **options)


def test_a_call_waits_runs_once_and_is_then_replaced_by_its_result() -> None:
    approver = make_approver()
    assert isinstance(approver.ask("t/1", PAY), Wait)
    approver.answer("t/1", {"c1": "approve"})
    assert approver.ask("t/1", PAY) == Run(call=PAY)
    with pytest.raises(ThreadBusy):
        approver.ask("t/1", PAY)
    assert approver.finish("t/1", PAY, "paid") == "paid"
    assert approver.ask("t/1", PAY) == Replace(result="paid")


def test_calls_of_a_turn_wait_together_and_one_without_a_rule_runs_at_once() -> None:
    approver = make_approver()
    assert approver.ask("t/1", LOOK) == Run(call=LOOK)
    assert approver.finish("t/1", LOOK, {"seen": 1}) == '{"seen": 1}'
    assert isinstance(approver.ask("t/2", LOOK, turn=[PAY, LOOK]), Wait)
    approver.answer("t/2", {"c1": "reject"})
    rejected = approver.ask("t/2", PAY, turn=[PAY, LOOK])
    assert isinstance(rejected, Replace)
    assert rejected.reason is NotRunReason.REJECTED
    assert approver.ask("t/2", LOOK, turn=[PAY, LOOK]) == Run(call=LOOK)


def test_a_decision_does_not_count_for_another_call_under_the_same_key() -> None:
    approver = make_approver()
    approver.ask("t/1", PAY)
    approver.answer("t/1", {"c1": "approve"})
    more = ToolCall(id="c1", name="pay", arguments={"to": "someone else"})
    with pytest.raises(HookError, match="Other calls were stopped"):
        approver.ask("t/1", more)
    with pytest.raises(HookError, match="has no call c1"):
        approver.ask("t/1", more, turn=[PAY])
    assert approver.ask("t/1", PAY) == Run(call=PAY)


def test_an_edited_call_runs_as_edited_and_the_model_is_told() -> None:
    approver = make_approver()
    approver.ask("t/1", PAY)
    approver.answer("t/1", {"c1": {"decision": "edit", "arguments": {"to": "Bo"}}})
    assert approver.ask("t/1", PAY) == Run(call=ToolCall(id="c1", name="pay", arguments={"to": "Bo"}))
    assert approver.finish("t/1", PAY, "paid").startswith("A person changed this call before it ran")


def test_every_reason_for_which_a_call_does_not_run_is_reported() -> None:
    clock = FakeClock()
    hook = HumanInTheLoopHook({"pay": ToolConfig(timeout=60)})
    approver = make_approver(MemorySaver(clock=clock), hook=hook, clock=clock)
    for key in ("rejected", "superseded", "failed", "unknown", "timed_out"):
        assert isinstance(approver.ask(key, PAY), Wait)
    approver.answer("rejected", {"c1": "reject"})
    approver.gate.cancel("superseded", "a message came")
    for key in ("failed", "unknown"):
        approver.answer(key, {"c1": "approve"})
        assert isinstance(approver.ask(key, PAY), Run)
    assert approver.fail("failed", PAY, ValueError("no money")) == "The tool failed: ValueError: no money"
    clock.advance(timedelta(hours=1))
    reasons = {"unknown": "failed"}
    for key in ("rejected", "superseded", "failed", "unknown", "timed_out"):
        replaced = make_approver(approver.gate.saver, hook=hook, clock=clock).ask(key, PAY)
        assert isinstance(replaced, Replace), key
        assert replaced.reason == reasons.get(key, key)
    again = approver.ask("unknown", PAY)
    assert again == Replace(result=OUTCOME_UNKNOWN, reason=NotRunReason.FAILED)


def test_a_condition_that_changes_its_mind_does_not_stop_half_of_a_turn() -> None:
    stops = [False, False, True, True]

    def decide(call: ToolCall, state: State) -> bool:
        return stops.pop(0)

    approver = make_approver(hook=HumanInTheLoopHook({"pay": ToolConfig(when=decide)}))
    second = ToolCall(id="c3", name="pay", arguments={"to": "Bo"})
    assert approver.ask("t/1", PAY, turn=[PAY, second]) == Run(call=PAY)
    assert approver.ask("t/1", second, turn=[PAY, second]) == Run(call=second)


def test_a_released_turn_is_forgotten() -> None:
    approver = make_approver()
    approver.ask("t/1", PAY)
    approver.release("t/1")
    assert approver.waiting("t/1") is None


def test_async_callers_get_the_same() -> None:
    approver = make_approver()

    async def work() -> list[Any]:
        stopped = await approver.aask("t/1", PAY)
        approver.answer("t/1", {"c1": "approve"})
        ran = await approver.aask("t/1", PAY)
        said = await approver.afinish("t/1", PAY, "paid")
        return [isinstance(stopped, Wait), ran, said]

    assert asyncio.run(work()) == [True, Run(call=PAY), "paid"]
