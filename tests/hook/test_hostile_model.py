"""Hostile model output: the call is refused, or shown exactly as it was sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.errors import InvalidFeedback, ModelMisbehaved
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, ToolConfig
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result

GATED = HumanInTheLoopHook({"execute_sql": True})


def make_agent(office: Office, *replies: Any, hook: HumanInTheLoopHook = GATED, **named: Any) -> ReactAgent:
    return ReactAgent("office", Scripted(*replies), office.tools, [hook], MemorySaver(), **named)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"query": NaN}',
        '{"query": 1e999}',
        '{"query": ' + "[" * 100_000 + "]" * 100_000 + "}",
        {"query": object()},
        {"query": {1, 2}},
        {"query": 10**5000},
        {"query": "half a character: \ud800"},
        "[]",
        "{",
    ],
)
def test_arguments_that_no_page_could_show_are_refused_and_the_model_is_told(arguments: Any) -> None:
    office = Office()
    model = Scripted([{"id": "c1", "name": "execute_sql", "arguments": arguments}], "sorry")
    expect_result(ReactAgent("office", model, office.tools, [GATED], saver=MemorySaver()).invoke("go"))
    assert "Nothing was run" in model.results()[0]
    assert office.ran == []


@pytest.mark.parametrize("depth", [100, 500, 800])
def test_arguments_however_nested_do_not_end_the_thread(depth: int) -> None:
    def keep(items: list[Any]) -> str:
        return "kept"

    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    model = Scripted([call("c1", "keep", items=nested)], "done")
    agent = ReactAgent("office", model, [keep], [HumanInTheLoopHook({"keep": True})], saver=MemorySaver())
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    expect_result(agent.resume("t", waiting.approve_all()))
    assert model.results() == ["kept"]


@pytest.mark.parametrize("reply", [{"content": object()}, {"content": "hi", "raw": object()}])
def test_a_reply_that_cannot_be_kept_is_the_models_error(reply: Any) -> None:
    with pytest.raises(ModelMisbehaved, match="not JSON"):
        ReactAgent("office", lambda messages: reply, saver=MemorySaver()).invoke("go", thread_id="t")


def test_a_tool_whose_result_cannot_be_written_down_has_not_failed() -> None:
    def pairs() -> dict[tuple[int, int], int]:
        return {(1, 2): 3}

    def endless() -> list[Any]:
        result: list[Any] = []
        result.append(result)
        return result

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    def mute() -> Mute:
        return Mute()

    model = Scripted([call("1", "pairs"), call("2", "endless"), call("3", "mute")], "done")
    expect_result(ReactAgent("office", model, [pairs, endless, mute], saver=MemorySaver()).invoke("go"))
    assert model.results() == ["{(1, 2): 3}", "[[...]]", "(Mute)"]


def test_a_held_call_can_still_be_answered_when_its_time_is_over() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    office = Office()
    hook = HumanInTheLoopHook({"execute_sql": ToolConfig(timeout=60, default="hold")})
    agent = make_agent(
        office, [call("c1", "execute_sql", query="q")], "done", hook=hook, clock=lambda: now[0]
    )
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    now[0] += timedelta(days=1)
    expect_interruption(agent.resume("t"))
    expect_result(agent.resume("t", waiting.approve_all()))
    assert office.ran == [("execute_sql", "q")]


def test_an_answer_delivered_twice_does_not_approve_the_next_call_of_a_model_that_repeats_its_ids() -> None:
    office = Office()
    agent = make_agent(
        office, [call("c1", "execute_sql", query="first")], [call("c1", "execute_sql", query="DROP")], "done"
    )
    agent.invoke("go", thread_id="t")
    second = expect_interruption(agent.resume("t", {"c1": "approve"}))
    with pytest.raises(InvalidFeedback):
        agent.resume("t", {"c1": "approve"})
    assert office.ran == [("execute_sql", "first")]
    expect_result(agent.resume("t", second.approve_all()))


def test_a_tool_that_is_gone_when_its_call_is_approved_is_told_as_gone() -> None:
    office, saver = Office(), MemorySaver()
    script = ([call("c1", "execute_sql", query="q")], "done")
    before = ReactAgent("office", Scripted(*script), office.tools, [GATED], saver)
    waiting = expect_interruption(before.invoke("go", thread_id="t"))
    model = Scripted(*script)
    hook = HumanInTheLoopHook({"execute_sql": True}, optional=["execute_sql"])
    after = ReactAgent("office", model, [office.read_data], [hook], saver)
    expect_result(after.resume("t", waiting.approve_all()))
    assert model.results() == ["There is no tool execute_sql. Nothing was run."]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"query": NaN}',
        '{"query": ' + "[" * 100_000,
        {"query": object()},
        {"query": {1}},
        {"query": "\ud800"},
    ],
)
def test_an_edit_that_is_not_json_is_refused_and_the_call_can_still_be_answered(arguments: Any) -> None:
    office = Office()
    agent = make_agent(office, [call("c1", "execute_sql", query="q")], "done")
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    with pytest.raises(InvalidFeedback):
        agent.resume("t", {"c1": {"decision": "edit", "arguments": arguments}})
    expect_result(agent.resume("t", waiting.approve_all()))
    assert office.ran == [("execute_sql", "q")]
