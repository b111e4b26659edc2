"""Answers that come after the calls were decided: a repeat gets the outcome, a contradiction an error."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import AlreadyDecided, InvalidFeedback, NothingToResume
from placet.hook import (
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ReactAgent,
    SqliteSaver,
    ToolConfig,
    requires_approval,
)
from placet.hook.answer_validation import Feedback
from placet.hook.feedback import DecisionName
from placet.hook.gate import Gate
from placet.hook.tool_call import ToolCall
from placet.testing.clock import FakeClock
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result

TWO = [call("a", "execute_sql", query="DROP"), call("b", "write_file", path="x")]
ALL: tuple[DecisionName, ...] = ("approve", "edit", "reject", "respond")
RULES = {"execute_sql": ToolConfig(allowed_decisions=ALL), "write_file": True}


class Desk:
    def __init__(self, *replies: Any, saver: Any = None, **policy: Any) -> None:
        self.office, self.clock = Office(), FakeClock()
        self.saver = saver or MemorySaver(clock=self.clock)
        self.hook = HumanInTheLoopHook(policy.pop("rules", RULES), **policy)
        self.replies = replies or (TWO, "done")
        self.agent = self.make()

    def make(self) -> ReactAgent:
        model = Scripted(*self.replies)
        return ReactAgent("clerk", model, self.office.tools, [self.hook], self.saver, clock=self.clock)

    def ask(self) -> InterruptionMetadata:
        return expect_interruption(self.agent.invoke("go", thread_id="t"))


def aresume(agent: ReactAgent, thread_id: str, feedback: Any) -> Any:
    return asyncio.run(agent.aresume(thread_id, feedback))


LATE: list[Any] = [
    lambda waiting: waiting.reject_all("wait, no"),
    lambda waiting: waiting.approve("a").reject("b"),
    lambda waiting: waiting.edit("a", {"query": "SELECT 1"}).approve("b"),
    lambda waiting: waiting.respond("a", "I did it"),
    lambda waiting: {"a": "reject"},
    lambda waiting: {"a": "approve", "b": {"decision": "reject", "reason": "no"}},
    lambda waiting: {"a": {"decision": "edit", "arguments": {"query": "SELECT 1"}}},
    lambda waiting: [waiting.tool_feedbacks[0].reject("no")],
    lambda waiting: iter([waiting.tool_feedbacks[1].reject("no")]),
    lambda waiting: {"z": "approve"},
]


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_rejection_after_the_approved_calls_ran_is_not_swallowed(late: Any, is_async: bool) -> None:
    desk = Desk()
    waiting = desk.ask()
    outcome = expect_result(desk.agent.resume("t", waiting.approve_all()))
    ran = list(desk.office.ran)
    resume = aresume if is_async else ReactAgent.resume
    with pytest.raises(AlreadyDecided) as refused:
        resume(desk.agent, "t", late(waiting))
    assert refused.value.outcome == outcome
    assert refused.value.details["problems"]
    assert desk.office.ran == ran


@pytest.mark.parametrize(
    "first",
    [
        lambda waiting: waiting.approve_all(),
        lambda waiting: waiting.reject_all("no"),
        lambda waiting: waiting.edit("a", {"query": "SELECT 1"}).reject("b", "no"),
        lambda waiting: waiting.respond("a", "I did it").approve("b"),
        lambda waiting: {"a": "approve", "b": "reject"},
        lambda waiting: {"a": {"decision": "edit", "arguments": '{"query": "SELECT 1"}'}, "b": "approve"},
        lambda waiting: [each.approve() for each in waiting.tool_feedbacks],
    ],
)
def test_the_same_answer_again_gets_the_stored_outcome(first: Any) -> None:
    desk = Desk()
    waiting = desk.ask()
    outcome = desk.agent.resume("t", first(waiting))
    assert desk.agent.resume("t", first(waiting)) == outcome
    assert desk.make().resume("t", first(waiting)) == outcome
    assert desk.agent.resume("t") == outcome
    assert desk.agent.resume("t", waiting) == outcome, "an answer without decisions contradicts nothing"


def test_part_of_the_answer_again_and_another_reason_are_no_contradiction() -> None:
    desk = Desk()
    waiting = desk.ask()
    outcome = desk.agent.resume("t", waiting.approve("a").reject("b", "no"))
    assert desk.agent.resume("t", {"a": "approve"}) == outcome
    assert desk.agent.resume("t", waiting.reject("b", "said differently")) == outcome


@pytest.mark.parametrize(
    "late", [{"a": "yes"}, {"a": None}, {"a": {"decision": "approve", "x": 1}}, ["approve"]]
)
def test_a_late_answer_that_is_no_decision_is_refused(late: Any) -> None:
    desk = Desk()
    desk.agent.resume("t", desk.ask().approve_all())
    with pytest.raises(InvalidFeedback):
        desk.agent.resume("t", late)


def test_a_contradiction_is_noticed_in_another_process(tmp_path: Any) -> None:
    saver = SqliteSaver(tmp_path / "threads.db")
    desk = Desk(saver=saver)
    waiting = desk.ask()
    desk.agent.resume("t", waiting.approve_all())
    saver.close()
    later = Desk(saver=SqliteSaver(tmp_path / "threads.db"))
    with pytest.raises(AlreadyDecided) as refused:
        later.agent.resume("t", waiting.reject_all())
    assert expect_result(refused.value.outcome).text == "done"
    later.saver.close()


def test_an_old_answer_said_otherwise_is_refused_while_the_next_turn_waits() -> None:
    desk = Desk(TWO, [call("c", "execute_sql", query="VACUUM")], "done")
    first = desk.ask()
    second = expect_interruption(desk.agent.resume("t", first.approve_all()))
    with pytest.raises(AlreadyDecided) as refused:
        desk.agent.resume("t", first.reject_all())
    assert expect_interruption(refused.value.outcome).id == second.id
    expect_result(desk.agent.resume("t", second.approve_all()))


def test_an_approval_after_the_time_was_over_is_not_swallowed() -> None:
    desk = Desk(rules={"execute_sql": ToolConfig(timeout=60), "write_file": True})
    waiting = desk.ask()
    desk.clock.advance(timedelta(minutes=2))
    expect_result(desk.agent.resume("t"))
    with pytest.raises(AlreadyDecided):
        desk.agent.resume("t", waiting.approve_all())
    assert desk.office.ran == []


def test_an_approval_after_a_message_cancelled_the_calls_is_not_swallowed() -> None:
    desk = Desk(TWO, "something else", on_new_message="cancel")
    waiting = desk.ask()
    outcome = desk.agent.invoke("never mind", thread_id="t")
    with pytest.raises(AlreadyDecided) as refused:
        desk.agent.resume("t", waiting.approve_all())
    assert refused.value.outcome == outcome
    assert desk.agent.resume("t", waiting.reject_all()) == outcome
    assert desk.office.ran == []


def test_a_rejection_while_the_approved_call_runs_is_not_taken_for_busy() -> None:
    running, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        """Take a while."""
        running.set()
        assert go_on.wait(60)
        return "ok"

    agent = ReactAgent(
        "clerk",
        Scripted([call("a", "slow")], "done"),
        [slow],
        [HumanInTheLoopHook({"slow": True})],
        MemorySaver(),
    )
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    worker = threading.Thread(target=agent.resume, args=("t", waiting.approve_all()))
    worker.start()
    try:
        assert running.wait(60)
        with pytest.raises(AlreadyDecided):
            agent.resume("t", waiting.reject_all())
    finally:
        go_on.set()
        worker.join(60)


def test_a_thread_that_nobody_stopped_takes_no_late_answer() -> None:
    desk = Desk("hello")
    desk.agent.invoke("go", thread_id="t")
    with pytest.raises(NothingToResume):
        desk.agent.resume("t", {"a": "reject"})


SQL = ToolCall(id="a", name="execute_sql", arguments={"query": "DROP"})


def test_a_gate_refuses_a_contradiction_and_repeats_its_decisions() -> None:
    gate = Gate([HumanInTheLoopHook({"execute_sql": True, "send": True})], MemorySaver())
    stopped = gate.stop("k", [SQL])
    assert stopped is not None
    decided = gate.answer("k", stopped.approve_all())
    assert gate.answer("k", iter(stopped.approve_all().tool_feedbacks)) == decided
    contradictions: tuple[Feedback, ...] = (
        stopped.reject_all(),
        {"a": "reject"},
        stopped.edit("a", {"query": "1"}),
    )
    for late in contradictions:
        with pytest.raises(AlreadyDecided) as refused:
            gate.answer("k", late)
        assert refused.value.outcome == decided


def test_an_edit_into_a_gated_tool_may_be_delivered_again_after_its_approval() -> None:
    schemas: dict[str, Any] = {"send": {"type": "object"}, "execute_sql": None}
    gate = Gate([HumanInTheLoopHook({"execute_sql": True, "send": True})], MemorySaver())
    first = gate.stop("k", [SQL], schemas=schemas)
    assert first is not None
    edit = first.edit("a", {"to": "x"}, name="send")
    second = gate.answer("k", edit)
    decided = gate.answer("k", second.approve_all())
    assert gate.answer("k", edit) == decided
    for late in (first.reject_all(), second.reject_all()):
        with pytest.raises(AlreadyDecided):
            gate.answer("k", late)


def test_of_two_people_who_are_asked_about_one_function_the_second_hears_that_it_is_decided() -> None:
    runs: list[str] = []

    def first_then_no(waiting: InterruptionMetadata) -> Any:
        asked.append(waiting)
        if len(asked) == 1:
            assert pay("Ann") == "paid Ann"
            return waiting.reject_all("no")
        return waiting.approve_all()

    asked: list[InterruptionMetadata] = []

    @requires_approval(ask=first_then_no, saver=MemorySaver(), key=lambda call: "k")
    def pay(to: str) -> str:
        runs.append(to)
        return f"paid {to}"

    with pytest.raises(AlreadyDecided):
        pay("Ann")
    assert runs == ["Ann"]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"decision": "respond", "answer": "yes"}, {"decision": "respond", "answer": "no"}),
        (
            {"decision": "edit", "arguments": {"path": "x"}, "name": "write_file"},
            {"decision": "edit", "arguments": {"path": "x"}, "name": "append_file"},
        ),
        ("approve", {"decision": "edit", "arguments": {"query": "SELECT 1"}}),
    ],
)
def test_a_partial_answer_that_says_something_else_about_a_decided_call_is_refused(
    first: Any, later: Any
) -> None:
    gate = Gate([HumanInTheLoopHook({"execute_sql": ToolConfig(allowed_decisions=ALL)})], MemorySaver())
    calls = [ToolCall(id=each, name="execute_sql", arguments={"query": "DROP"}) for each in ("a", "b")]
    path = {"type": "object", "properties": {"path": {"type": "string"}}}
    schemas = {"execute_sql": None, "write_file": path, "append_file": path}
    gate.stop("k", calls, schemas=schemas)
    gate.answer("k", {"a": first})
    gate.answer("k", {"a": first})
    with pytest.raises(InvalidFeedback, match="a: already decided"):
        gate.answer("k", {"a": later})
    decided = gate.answer("k", {"b": "reject"})
    assert decided.tool_feedbacks[0] == gate.answer("k", {"a": first}).tool_feedbacks[0]
