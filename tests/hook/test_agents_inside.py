"""Nested agents: decisions about their calls arrive despite failures."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.errors import InvalidFeedback, ThreadBusy, Unavailable
from placet.hook import FeedbackResult, HumanInTheLoopHook, MemorySaver, ReactAgent, ToolConfig
from placet.hook.case_outcome import CaseOutcome
from placet.hook.checkpoint import Checkpoint
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result


class SettableClock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


class NestedAgents:
    """A chief who has a clerk, whose SQL a person must see."""

    def __init__(self, saver: MemorySaver | None = None, *, calls: Any = None, **options: Any) -> None:
        self.office, self.now = Office(), SettableClock()
        config = ToolConfig(**options.pop("config", {}))
        self.clerk_model = Scripted(calls or [call("i", "execute_sql", query="q")], "clerk is done")
        clerk = ReactAgent(
            "clerk",
            self.clerk_model,
            self.office.tools,
            [HumanInTheLoopHook({"execute_sql": config})],
            clock=self.now,
            saver=MemorySaver(),
        )
        self.model = Scripted([call("o", "clerk", task="clean up")], "done")
        self.chief = ReactAgent(
            "chief",
            self.model,
            [clerk.as_tool("Does things."), self.office.execute_sql],
            saver=saver or MemorySaver(clock=self.now),
            clock=self.now,
            **options,
        )


def test_when_time_is_over_the_agent_inside_hears_that_nobody_decided() -> None:
    house = NestedAgents(config={"timeout": 60, "allowed_decisions": ("approve", "edit")})
    expect_interruption(house.chief.invoke("go", thread_id="t"))
    house.now.at += timedelta(hours=1)
    expect_result(house.chief.resume("t"))
    assert "Nobody decided in time" in house.clerk_model.results()[0]
    assert house.model.results() == ["clerk is done"]


def test_what_a_person_approved_in_time_runs_inside_however_late_the_agent_comes_back() -> None:
    class Page:
        def open_case(self, interruption: Any, *, agent: str, attempt: int = 0) -> dict[str, Any]:
            return {"case_id": "c"}

        def poll_case(self, case: Any) -> CaseOutcome:
            return CaseOutcome(status="decided", decisions={"o/i": "approve"})

        def withdraw(self, case: Any, reason: str) -> None:
            raise AssertionError

    house = NestedAgents(config={"timeout": 60}, reviews=Page())
    expect_interruption(house.chief.invoke("go", thread_id="t"))
    house.now.at += timedelta(hours=1)
    expect_result(house.chief.resume("t"))
    assert house.office.ran == [("execute_sql", "q")]


class FailingSaver(MemorySaver):
    """Fails once, at the operation with this number."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self.left = fails_at

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Unavailable

    def get(self, *args: Any) -> Any:
        self.step()
        return super().get(*args)

    def put(self, *args: Any, **named: Any) -> None:
        self.step()
        super().put(*args, **named)

    def claim(self, *args: Any, **named: Any) -> None:
        self.step()
        super().claim(*args, **named)

    def release(self, *args: Any) -> None:
        self.step()
        super().release(*args)


def get_run_functions(agent: ReactAgent, asynchronous: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if not asynchronous:
        return agent.invoke, agent.resume
    return (
        lambda *args, **named: asyncio.run(agent.ainvoke(*args, **named)),
        lambda *args, **named: asyncio.run(agent.aresume(*args, **named)),
    )


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("fails_at", range(1, 18))
def test_a_storage_that_fails_at_any_step_loses_no_decision_about_a_call_inside(
    fails_at: int, asynchronous: bool
) -> None:
    saver = FailingSaver(fails_at)
    house = NestedAgents(saver)
    invoke, resume = get_run_functions(house.chief, asynchronous)
    for _ in range(6):
        kept = MemorySaver.get(saver, "t")
        stage = "" if kept is None else kept.checkpoint.stage
        try:
            if stage == "":
                invoke("go", thread_id="t")
            elif stage == "paused":
                resume("t", {"o/i": "approve"})
            elif stage == "running":
                resume("t")
        except Unavailable:
            continue
    assert house.office.ran == [("execute_sql", "q")]
    assert house.model.results() == ["clerk is done"]


def test_an_agent_inside_that_another_process_still_holds_is_waited_for() -> None:
    saver = MemorySaver()
    house = NestedAgents(saver)
    waiting = expect_interruption(house.chief.invoke("go", thread_id="t"))
    kept = saver.get("t/2/o")
    assert kept is not None
    saver.renew("t/2/o", kept.checkpoint.rev, lease_for=timedelta(minutes=5))  # as a killed process leaves it
    with pytest.raises(ThreadBusy):
        house.chief.resume("t", waiting.approve_all())
    saver.renew("t/2/o", kept.checkpoint.rev, lease_for=timedelta(minutes=-5))
    expect_result(house.chief.resume("t"))
    assert house.office.ran == [("execute_sql", "q")]


def test_slashes_in_a_models_ids_do_not_mix_up_the_calls_of_two_agents_inside() -> None:
    office = Office()
    hook = HumanInTheLoopHook({"execute_sql": True})
    one = ReactAgent(
        "one",
        Scripted([call("b/c", "execute_sql", query="1")], "1"),
        office.tools,
        [hook],
        saver=MemorySaver(),
    )
    two = ReactAgent(
        "two", Scripted([call("c", "execute_sql", query="2")], "2"), office.tools, [hook], saver=MemorySaver()
    )
    model = Scripted([call("a", "one", task="x"), call("a/b", "two", task="x")], "done")
    chief = ReactAgent(
        "chief",
        model,
        [one.as_tool("1", parallel=True), two.as_tool("2", parallel=True)],
        saver=MemorySaver(),
    )
    waiting = expect_interruption(chief.invoke("go", thread_id="t"))
    first, second = waiting.tool_feedbacks
    assert first.id != second.id
    expect_result(chief.resume("t", [first.approve(), second.reject("no")]))
    assert office.ran == [("execute_sql", "1")]


def test_a_call_inside_cannot_become_a_tool_of_the_agent_around_it() -> None:
    house = NestedAgents()
    waiting = expect_interruption(house.chief.invoke("go", thread_id="t"))
    edit = waiting.edit("o/i", {"path": "x"}, name="write_file")
    with pytest.raises(InvalidFeedback, match="inner agent"):
        house.chief.resume("t", edit)
    expect_result(house.chief.resume("t", waiting.edit("o/i", {"query": "SELECT 1"})))
    assert house.office.ran == [("execute_sql", "SELECT 1")]
    assert waiting.tool_feedbacks[0].allowed_decisions[0] is FeedbackResult.APPROVED


def test_a_call_that_was_changed_into_an_agent_does_not_run_as_it_was_when_that_agent_asks() -> None:
    office, hook = Office(), HumanInTheLoopHook({"execute_sql": True})
    clerk = ReactAgent(
        "clerk",
        Scripted([call("i", "execute_sql", query="q")], "ok"),
        office.tools,
        [hook],
        saver=MemorySaver(),
    )
    model = Scripted([call("o", "execute_sql", query="DROP TABLE t")], "done")
    chief = ReactAgent("chief", model, [clerk.as_tool(""), office.execute_sql], [hook], saver=MemorySaver())
    asked = expect_interruption(chief.invoke("go", thread_id="t"))
    inside = expect_interruption(chief.resume("t", asked.edit("o", {"task": "look first"}, name="clerk")))
    assert [(each.id, each.path) for each in inside.tool_feedbacks] == [("o/i", ("clerk",))]
    expect_result(chief.resume("t", inside.approve_all()))
    assert office.ran == [("execute_sql", "q")]
    assert 'it ran as clerk({"task": "look first"})' in model.results()[0]
    assert [*chief.saver.list_threads("paused"), *chief.saver.list_threads("ready")] == ["t"]


def test_a_call_inside_that_goes_by_the_id_of_a_call_outside_is_not_taken_for_it() -> None:
    office = Office()
    hook = HumanInTheLoopHook({"execute_sql": True})
    one = ReactAgent(
        "one", Scripted([call("b", "execute_sql", query="1")], "1"), office.tools, [hook], saver=MemorySaver()
    )
    two = ReactAgent(
        "two", Scripted([call("c", "execute_sql", query="2")], "2"), office.tools, [hook], saver=MemorySaver()
    )
    model = Scripted([call("a", "one", task="x"), call("a/b", "two", task="x")], "done")
    chief = ReactAgent(
        "chief",
        model,
        [one.as_tool("1", parallel=True), two.as_tool("2", parallel=True), office.execute_sql],
        saver=MemorySaver(),
    )
    first, second = expect_interruption(chief.invoke("go", thread_id="t")).tool_feedbacks
    assert first.id == "a/b"
    expect_result(chief.resume("t", [first.approve(), second.reject("no")]))
    assert office.ran == [("execute_sql", "1")]
    assert model.results() == ["1", "2"]


class ConditionalFailingSaver(MemorySaver):
    """Raises this instead of keeping a checkpoint, as long as the condition holds."""

    def __init__(self, when: Callable[[Checkpoint], bool], error: type[BaseException]) -> None:
        super().__init__()
        self.when, self.error = when, error

    def put(self, checkpoint: Checkpoint, **named: Any) -> None:
        if self.when(checkpoint):
            raise self.error
        super().put(checkpoint, **named)


def test_an_approval_that_is_passed_on_once_more_approves_no_other_call_of_its_id() -> None:
    office, hook = Office(), HumanInTheLoopHook({"execute_sql": True})
    typist = ReactAgent(
        "typist",
        Scripted([call("x", "execute_sql", query="1")], "ok"),
        office.tools,
        [hook],
        saver=MemorySaver(),
    )
    next_call = [call("g/x", "execute_sql", query="DROP TABLE t")]
    clerk_model = Scripted([call("g", "typist", task="type")], next_call, "done")
    clerk = ReactAgent(
        "clerk", clerk_model, [typist.as_tool("Types."), office.execute_sql], [hook], saver=MemorySaver()
    )
    saver = ConditionalFailingSaver(lambda kept: kept.agent == "chief" and kept.rev > 3, Unavailable)
    chief = ReactAgent(
        "chief", Scripted([call("o", "clerk", task="go")], "done"), [clerk.as_tool("")], saver=saver
    )
    waiting = expect_interruption(chief.invoke("go", thread_id="t"))
    with pytest.raises(Unavailable):
        chief.resume("t", waiting.approve_all())
    assert saver.list_threads("paused") == ["t/2/o"], "the clerk has asked, and the chief has not heard of it"
    saver.when = lambda kept: False
    _expire_lease(saver)
    again = expect_interruption(chief.resume("t"))
    assert [each.arguments for each in again.undecided] == [{"query": "DROP TABLE t"}]
    assert office.ran == [("execute_sql", "1")]


def _expire_lease(saver: MemorySaver) -> None:
    kept = saver.get("t")
    assert kept is not None
    saver.renew("t", kept.checkpoint.rev, lease_for=timedelta(minutes=-1))


def test_the_way_to_a_call_names_agents_as_grants_know_them() -> None:
    clerk_model = Scripted([call("i", "execute_sql", query="q")], "ok")
    hook = HumanInTheLoopHook({"execute_sql": True})
    clerk = ReactAgent("clerk", clerk_model, Office().tools, [hook], saver=MemorySaver())
    model = Scripted([call("o", "help_me", task="x")], "done")
    chief = ReactAgent("chief", model, [clerk.as_tool("Helps.", name="help_me")], saver=MemorySaver())
    waiting = expect_interruption(chief.invoke("go", thread_id="t"))
    kept = chief.saver.get("t/2/o")
    assert kept is not None
    assert kept.checkpoint.agent == ">".join(["chief", *waiting.tool_feedbacks[0].path])


def test_an_agent_inside_that_never_stopped_calling_does_not_hold_up_the_one_around_it() -> None:
    office, saver = Office(), ConditionalFailingSaver(lambda kept: False, KeyboardInterrupt)
    clerk_model = Scripted(*[[call(f"i{turn}", "read_data")] for turn in range(3)])
    clerk = ReactAgent("clerk", clerk_model, office.tools, max_turns=2, saver=MemorySaver())
    model = Scripted([call("o", "clerk", task="x")], "done")
    chief = ReactAgent("chief", model, [clerk.as_tool("")], saver=saver)
    saver.when = lambda kept: kept.agent == "chief" and bool(saver.list_threads("ready"))
    with pytest.raises(KeyboardInterrupt):
        chief.invoke("go", thread_id="t")
    saver.when = lambda kept: False
    _expire_lease(saver)
    assert expect_result(chief.resume("t")).text == "done"
    assert "was still calling tools" in model.results()[0]


def test_a_thread_that_was_forgotten_leaves_no_question_of_an_agent_inside_to_one_of_its_name() -> None:
    def asks(messages: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] != "user":
            return "done"
        return {"tool_calls": [{"name": "execute_sql", "arguments": {"query": messages[-1]["content"]}}]}

    def delegates(messages: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] != "user":
            return "done"
        return {"tool_calls": [{"name": "clerk", "arguments": {"task": messages[-1]["content"]}}]}

    office = Office()
    clerk = ReactAgent(
        "clerk", asks, office.tools, [HumanInTheLoopHook({"execute_sql": True})], saver=MemorySaver()
    )
    chief = ReactAgent("chief", delegates, [clerk.as_tool("")], saver=MemorySaver())
    expect_interruption(chief.invoke("DROP TABLE t", thread_id="t"))
    chief.saver.release("t")
    waiting = expect_interruption(chief.invoke("SELECT 1", thread_id="t"))
    assert [each.arguments for each in waiting.tool_feedbacks] == [{"query": "SELECT 1"}]
    expect_result(chief.resume("t", waiting.approve_all()))
    assert office.ran == [("execute_sql", "SELECT 1")]
