"""Leases on calls: one run works on a turn, and a dead process blocks nobody."""

from datetime import timedelta
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall, call_leases
from placet.hook.gate import Gate
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.testing.clock import FakeClock

CALLS = [ToolCall(id=f"c{number}", name="pay", arguments={"amount": number}) for number in range(3)]
LEASE = timedelta(minutes=5)


class SharedGates:
    """Gates that share a storage and a clock, as processes do; all calls of the turn are approved."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.saver = MemorySaver(clock=self.clock)
        self.decide("k")

    def new(self) -> Gate:
        return Gate([HumanInTheLoopHook({"*": True})], self.saver, lease_for=LEASE, clock=self.clock)

    def decide(self, key: str) -> None:
        first = self.new()
        first.stop(key, CALLS)
        first.answer(key, {call.id: "approve" for call in CALLS})


@pytest.fixture
def processes() -> SharedGates:
    return SharedGates()


def begin_call(gate: Gate, call_id: str, *, repeatable: bool = False, owner: str | None = None) -> str:
    found = gate.begin_all("k", {call_id: repeatable}, owner=owner)[call_id]
    if isinstance(found, Exception):
        return "busy"
    return "runs" if found.run else found.result


def test_of_two_processes_that_begin_calls_one_by_one_the_first_gets_them_all(processes: SharedGates) -> None:
    one, other = processes.new(), processes.new()
    assert begin_call(one, "c0") == "runs"
    assert begin_call(other, "c1") == "busy"
    assert [begin_call(one, "c1"), begin_call(one, "c2")] == ["runs", "runs"]


def test_of_two_runs_in_one_process_the_first_gets_them_all(processes: SharedGates) -> None:
    gate = processes.new()
    assert begin_call(gate, "c0", owner="one") == "runs"
    assert begin_call(gate, "c1", owner="other") == "busy"
    assert begin_call(gate, "c1", owner="one") == "runs"


def test_refused_run_cannot_start_between_two_calls(processes: SharedGates) -> None:
    one, other = processes.new(), processes.new()
    assert begin_call(one, "c0") == "runs"
    assert begin_call(other, "c2", owner="other") == "busy"
    one.finish("k", "c0", "done")
    assert begin_call(other, "c1", owner="other") == "busy"
    assert begin_call(other, "c0", owner="other") == "done"
    assert begin_call(one, "c1") == "runs"


def test_refused_run_may_start_after_the_lease_ended(processes: SharedGates) -> None:
    one, other = processes.new(), processes.new()
    assert begin_call(one, "c0") == "runs"
    assert begin_call(other, "c1", owner="other") == "busy"
    processes.clock.advance(LEASE)
    assert [begin_call(other, "c1", owner="other"), begin_call(other, "c0", owner="other")] == [
        "runs",
        OUTCOME_UNKNOWN,
    ]


@pytest.mark.parametrize("order", [("c0", "c1", "c2"), ("c1", "c0", "c2"), ("c2", "c1", "c0")])
def test_a_dead_process_holds_up_nobody_in_whatever_order_the_next_one_begins(
    processes: SharedGates, order: tuple[str, ...]
) -> None:
    assert begin_call(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert {call_id: begin_call(following, call_id) for call_id in order} == {
        "c0": OUTCOME_UNKNOWN,
        "c1": "runs",
        "c2": "runs",
    }


def test_a_dead_process_holds_up_nobody_between_two_calls_of_the_next_one(processes: SharedGates) -> None:
    assert begin_call(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert begin_call(following, "c1") == "runs"
    following.finish("k", "c1", "done")
    assert begin_call(following, "c0", repeatable=True) == "runs"


def test_lost_call_does_not_release_the_running_one(processes: SharedGates) -> None:
    assert begin_call(processes.new(), "c0") == "runs"
    processes.clock.advance(LEASE)
    following = processes.new()
    assert [begin_call(following, "c1"), begin_call(following, "c0")] == ["runs", OUTCOME_UNKNOWN]
    assert begin_call(processes.new(), "c1") == "busy"


def test_a_process_that_was_only_slow_does_not_take_a_turn_back(processes: SharedGates) -> None:
    slow, following = processes.new(), processes.new()
    assert begin_call(slow, "c0") == "runs"
    processes.clock.advance(LEASE)
    assert begin_call(following, "c1") == "runs"
    assert [begin_call(slow, "c1", repeatable=True), begin_call(slow, "c2")] == ["busy", "busy"]
    assert begin_call(following, "c2") == "runs"


def test_of_many_turns_at_once_each_goes_on(processes: SharedGates) -> None:
    gate, keys = processes.new(), [f"k{number}" for number in range(300)]
    for key in keys:
        processes.decide(key)
    for call_id in ("c0", "c1"):
        for key in keys:
            assert gate.begin_all(key, {call_id: False}, owner=key)[call_id] == call_leases.CallStart(
                run=True
            )


def test_of_more_turns_than_are_remembered_each_is_still_begun_once(
    processes: SharedGates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_leases, "MAX_TURNS", 8)
    gate, keys = processes.new(), [f"k{number}" for number in range(10)]
    for key in keys:
        processes.decide(key)
        assert gate.begin_all(key, {"c0": False})["c0"] == gate.begin_all(key, {"c1": False})["c1"]
    again = [gate.begin_all(key, {"c0": True})["c0"] for key in keys]
    assert all(isinstance(found, Exception) for found in again)


@pytest.mark.parametrize("repeatable", [False, True])
def test_fast_clock_does_not_expire_a_live_lease(processes: SharedGates, repeatable: bool) -> None:
    first = processes.new()
    assert begin_call(first, "c0", repeatable=repeatable) == "runs"
    fast = Gate([], processes.saver, lease_for=LEASE, clock=lambda: processes.clock() + timedelta(hours=1))
    assert [begin_call(fast, "c0", repeatable=repeatable), begin_call(fast, "c1")] == ["busy", "busy"]
    assert begin_call(first, "c1") == "runs"
    assert first.finish("k", "c0", "paid") == "paid"


def test_of_two_who_take_a_call_up_at_once_one_runs_it(processes: SharedGates) -> None:
    assert begin_call(processes.new(), "c0", repeatable=True) == "runs"
    processes.clock.advance(LEASE)
    faster, told = processes.new(), list[str]()

    class Overtaken(MemorySaver):
        """Everything as in the other; just before the first write somebody else writes."""

        def claim(self, *args: Any, **named: Any) -> None:
            if not told:
                told.append(begin_call(faster, "c0", repeatable=True))
            processes.saver.claim(*args, **named)

        def put(self, *args: Any, **named: Any) -> None:
            if not told:
                told.append(begin_call(faster, "c0", repeatable=True))
            processes.saver.put(*args, **named)

        def get(self, thread_id: str) -> Any:
            return processes.saver.get(thread_id)

    slower = Gate([], Overtaken(), lease_for=LEASE, clock=processes.clock)
    assert begin_call(slower, "c0", repeatable=True) == "busy"
    assert told == ["runs"]
