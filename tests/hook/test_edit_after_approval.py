"""Editing one tool's calls after the whole turn was approved."""

import pytest

from placet.errors import InvalidFeedback
from placet.hook import FeedbackResult, HumanInTheLoopHook, InterruptionMetadata, MemorySaver
from placet.hook.gate import Gate
from placet.hook.tool_call import ToolCall

CALLS = [
    ToolCall(id="a", name="execute_sql", arguments={"query": "DROP"}),
    ToolCall(id="b", name="write_file", arguments={"path": "x"}),
    ToolCall(id="c", name="execute_sql", arguments={"query": "VACUUM"}),
]
SAFE = {"query": "SELECT 1"}


def ask() -> InterruptionMetadata:
    stopped = Gate([HumanInTheLoopHook({"*": True})], MemorySaver()).stop("k", CALLS)
    assert stopped is not None
    return stopped


def list_results(answered: InterruptionMetadata) -> list[FeedbackResult | None]:
    return [each.result for each in answered.tool_feedbacks]


def test_a_tool_can_be_edited_after_everything_was_approved() -> None:
    answered = ask().approve_all().edit_tool("execute_sql", SAFE)
    assert answered == ask_like(answered).edit_tool("execute_sql", SAFE)
    assert list_results(answered) == ["edit", "approve", "edit"]
    assert [each.arguments for each in answered.tool_feedbacks] == [SAFE, {"path": "x"}, SAFE]


def ask_like(answered: InterruptionMetadata) -> InterruptionMetadata:
    originals = {call.id: call.arguments for call in CALLS}
    for each in answered.tool_feedbacks:
        shown = type(each)(id=each.id, name=each.name, arguments=originals[each.id], schema=each.schema)
        answered = answered.with_feedback(shown)
    return answered


def test_only_undecided_calls_are_edited_while_there_are_some() -> None:
    answered = ask().approve("a").edit_tool("execute_sql", SAFE)
    assert list_results(answered) == ["approve", "approve", "edit"]


def test_an_edit_does_not_revive_a_rejected_call() -> None:
    answered = ask().reject("a", "no").edit_tool("execute_sql", SAFE)
    assert list_results(answered) == ["reject", "approve", "edit"]
    with pytest.raises(InvalidFeedback, match="No undecided or approved call of execute_sql"):
        ask().reject_all("no").edit_tool("execute_sql", SAFE)


def test_a_tool_that_does_not_wait_cannot_be_edited() -> None:
    with pytest.raises(InvalidFeedback):
        ask().approve_all().edit_tool("execute_sqll", SAFE)


def test_the_gate_takes_the_edit() -> None:
    gate = Gate([HumanInTheLoopHook({"*": True})], MemorySaver())
    stopped = gate.stop("k", CALLS)
    assert stopped is not None
    decided = gate.answer("k", stopped.approve_all().edit_tool("execute_sql", SAFE))
    assert list_results(decided) == ["edit", "approve", "edit"]
