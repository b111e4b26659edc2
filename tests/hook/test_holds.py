"""One at a time works on a turn: nobody is refused by one who is dead, and two never refuse each other."""

from datetime import timedelta
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall, call_leases
from placet.hook.gate import ApprovalGate
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.clock import FakeClock

CALLS = [ToolCall(id=f"c{number}", name="pay", arguments={"amount": number}) for number in range(3)]
LEASE = timedelta(minutes=5)


class Processes:
    """Gates that share a storage and a clock, as processes do; all calls of the turn are approved."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.saver = MemorySaver(clock=self.clock)
        self.decide("k")

    def new(self) -> ApprovalGate:
        return ApprovalGate([HumanInTheLoopHook({"*": True})], self.saver, lease_for=LEASE, clock=self.clock)

    def decide(self, key: str) -> None:
        first = self.new()
        first.stop(key, CALLS)
        first.answer(key, {call.id: "approve" for call in CALLS})


@pytest.fixture
def processes() -> Processes:
    return Processes()


def began(gate: ApprovalGate, call_id: str, *, repeatable: bool = False, owner: str | None = None) -> str:
    found = gate.begin_all("k", {call_id: repeatable}, owner=owner)[call_id]
    if isinstance(found, Exception):
        return "busy"
    return "runs" if found.run else found.result


def test_of_two_processes_that_begin_calls_one_by_one_the_first_gets_them_all(processes: Processes) -> None:
    one, other = processes.new(), processes.new()
    assert began(one, "c0") == "runs"
    assert began(other, "c1") == "busy"
    assert [began(one, "c1"), began(one, "c2")] == ["runs", "runs"]


def test_of_two_runs_in_one_process_the_first_gets_them_all(processes: Processes) -> None:
    gate = processes.new()
    assert began(gate, "c0", owner="one") == "runs"
    assert began(gate, "c1", owner="other") == "busy"
    assert began(gate, "c1", owner="one") == "runs"


def test_whoever_was_refused_a_turn_does_not_slip_in_between_two_calls(processes: Processes) -> None:
    one, other = processes.new(), processes.new()
    assert began(one, "c0") == "runs"
    assert began(other, "c2", owner="other") == "busy"
    one.finish("k", "c0", "done")
    assert began(other, "c1", owner="other") == "busy"
    assert began(other, "c0", owner="other") == "done"
    assert began(one, "c1") == "runs"


def test_whoever_was_refused_a_turn_may_take_it_up_when_its_time_is_over(processes: Processes) -> None:
    one, other = processes.new(), processes.new()
    assert began(one, "c0") == "runs"
    assert began(other, "c1", owner="other") == "busy"
    processes.clock.advance(LEASE)
    assert [began(other, "c1", owner="other"), began(other, "c0", owner="other")] == ["runs", OUTCOME_UNKNOWN]


@pytest.mark.parametrize("order", [("c0", "c1", "c2"), ("c1", "c0", "c2"), ("c2", "c1", "c0")])
def test_a_dead_process_holds_up_nobody_in_whatever_order_the_next_one_begins(
    processes: Processes, order: tuple[str, ...]
) -> None:
    assert began(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert {call_id: began(following, call_id) for call_id in order} == {
        "c0": OUTCOME_UNKNOWN,
        "c1": "runs",
        "c2": "runs",
    }


def test_a_dead_process_holds_up_nobody_between_two_calls_of_the_next_one(processes: Processes) -> None:
    assert began(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert began(following, "c1") == "runs"
    following.finish("k", "c1", "done")
    assert began(following, "c0", repeatable=True) == "runs"


def test_that_a_call_was_lost_gives_nobody_the_one_that_runs(processes: Processes) -> None:
    assert began(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert [began(following, "c1"), began(following, "c0")] == ["runs", OUTCOME_UNKNOWN]
    assert began(processes.new(), "c1") == "busy"


def test_a_process_that_was_only_slow_does_not_take_a_turn_back(processes: Processes) -> None:
    slow, following = processes.new(), processes.new()
    assert began(slow, "c0") == "runs"
    processes.clock.advance(LEASE)
    assert began(following, "c1") == "runs"
    assert [began(slow, "c1", repeatable=True), began(slow, "c2")] == ["busy", "busy"]
    assert began(following, "c2") == "runs"


def test_of_many_turns_at_once_each_goes_on(processes: Processes) -> None:
    gate, keys = processes.new(), [f"k{number}" for number in range(300)]
    for key in keys:
        processes.decide(key)
    for call_id in ("c0", "c1"):
        for key in keys:
            assert gate.begin_all(key, {call_id: False}, owner=key)[call_id] == call_leases.CallStart(
                run=True
            )


def test_of_more_turns_than_are_remembered_each_is_still_begun_once(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_leases, "MAX_TURNS", 8)
    gate, keys = processes.new(), [f"k{number}" for number in range(10)]
    for key in keys:
        processes.decide(key)
        assert gate.begin_all(key, {"c0": False})["c0"] == gate.begin_all(key, {"c1": False})["c1"]
    again = [gate.begin_all(key, {"c0": True})["c0"] for key in keys]
    assert all(isinstance(found, Exception) for found in again)


@pytest.mark.parametrize("repeatable", [False, True])
def test_whoever_has_a_clock_that_is_fast_takes_nobody_for_dead(
    processes: Processes, repeatable: bool
) -> None:
    first = processes.new()
    assert began(first, "c0", repeatable=repeatable) == "runs"
    fast = ApprovalGate(
        [], processes.saver, lease_for=LEASE, clock=lambda: processes.clock() + timedelta(hours=1)
    )
    assert [began(fast, "c0", repeatable=repeatable), began(fast, "c1")] == ["busy", "busy"]
    assert began(first, "c1") == "runs"
    assert first.finish("k", "c0", "paid") == "paid"


def test_of_two_who_take_a_call_up_at_once_one_runs_it(processes: Processes) -> None:
    assert began(processes.new(), "c0", repeatable=True) == "runs"
    processes.clock.advance(LEASE)
    faster, told = processes.new(), list[str]()

    class Overtaken(MemorySaver):
        """Everything as in the other; just before the first write somebody else writes."""

        def claim(self, *args: Any, **named: Any) -> None:
            if not told:
                told.append(began(faster, "c0", repeatable=True))
            processes.saver.claim(*args, **named)

        def put(self, *args: Any, **named: Any) -> None:
            if not told:
                told.append(began(faster, "c0", repeatable=True))
            processes.saver.put(*args, **named)

        def get(self, thread_id: str) -> Any:
            return processes.saver.get(thread_id)

    slower = ApprovalGate([], Overtaken(), lease_for=LEASE, clock=processes.clock)
    assert began(slower, "c0", repeatable=True) == "busy"
    assert told == ["runs"]
