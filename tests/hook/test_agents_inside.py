"""Agents inside agents: what is decided about their calls arrives, whatever happens on the way."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent.errors import InvalidFeedback, ThreadBusy, Unavailable
from assent.hook import FeedbackResult, HumanInTheLoopHook, MemorySaver, ReactAgent, ToolConfig
from assent.hook.ruling import Ruling
from tests.hook.scripted import Office, Scripted, call, finished, stopped


class Now:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


class House:
    """A chief who has a clerk, whose SQL a person must see."""

    def __init__(self, saver: MemorySaver | None = None, *, calls: Any = None, **options: Any) -> None:
        self.office, self.now = Office(), Now()
        config = ToolConfig(**options.pop("config", {}))
        self.clerk_model = Scripted(calls or [call("i", "execute_sql", query="q")], "clerk is done")
        clerk = ReactAgent(
            "clerk",
            self.clerk_model,
            self.office.tools,
            [HumanInTheLoopHook({"execute_sql": config})],
            clock=self.now,
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
    house = House(config={"timeout": 60, "allowed_decisions": ("approve", "edit")})
    stopped(house.chief.invoke("go", thread_id="t"))
    house.now.at += timedelta(hours=1)
    finished(house.chief.resume("t"))
    assert "Nobody decided in time" in house.clerk_model.results()[0]
    assert house.model.results() == ["clerk is done"]


def test_what_a_person_approved_in_time_runs_inside_however_late_the_agent_comes_back() -> None:
    class Page:
        def ask(self, interruption: Any, *, agent: str, attempt: int = 0) -> dict[str, Any]:
            return {"case_id": "c"}

        def look(self, case: Any) -> Ruling:
            return Ruling(how="decided", decisions={"o/i": "approve"})

        def withdraw(self, case: Any, reason: str) -> None:
            raise AssertionError

    house = House(config={"timeout": 60}, reviews=Page())
    stopped(house.chief.invoke("go", thread_id="t"))
    house.now.at += timedelta(hours=1)
    finished(house.chief.resume("t"))
    assert house.office.ran == [("execute_sql", "q")]


class Outage(MemorySaver):
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


def driven(agent: ReactAgent, asynchronous: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
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
    saver = Outage(fails_at)
    house = House(saver)
    invoke, resume = driven(house.chief, asynchronous)
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
    house = House(saver)
    waiting = stopped(house.chief.invoke("go", thread_id="t"))
    kept = saver.get("t/2/o")
    assert kept is not None
    saver.renew("t/2/o", kept.checkpoint.rev, lease_for=timedelta(minutes=5))  # as a killed process leaves it
    with pytest.raises(ThreadBusy):
        house.chief.resume("t", waiting.approve_all())
    saver.renew("t/2/o", kept.checkpoint.rev, lease_for=timedelta(minutes=-5))
    finished(house.chief.resume("t"))
    assert house.office.ran == [("execute_sql", "q")]


def test_slashes_in_a_models_ids_do_not_mix_up_the_calls_of_two_agents_inside() -> None:
    office = Office()
    hook = HumanInTheLoopHook({"execute_sql": True})
    one = ReactAgent("one", Scripted([call("b/c", "execute_sql", query="1")], "1"), office.tools, [hook])
    two = ReactAgent("two", Scripted([call("c", "execute_sql", query="2")], "2"), office.tools, [hook])
    model = Scripted([call("a", "one", task="x"), call("a/b", "two", task="x")], "done")
    chief = ReactAgent("chief", model, [one.as_tool("1"), two.as_tool("2")])
    waiting = stopped(chief.invoke("go", thread_id="t"))
    first, second = waiting.tool_feedbacks
    assert first.id != second.id
    finished(chief.resume("t", [first.approve(), second.reject("no")]))
    assert office.ran == [("execute_sql", "1")]


def test_a_call_inside_cannot_become_a_tool_of_the_agent_around_it() -> None:
    house = House()
    waiting = stopped(house.chief.invoke("go", thread_id="t"))
    edit = waiting.edit("o/i", {"path": "x"}, name="write_file")
    with pytest.raises(InvalidFeedback, match="inside"):
        house.chief.resume("t", edit)
    finished(house.chief.resume("t", waiting.edit("o/i", {"query": "SELECT 1"})))
    assert house.office.ran == [("execute_sql", "SELECT 1")]
    assert waiting.tool_feedbacks[0].allowed_decisions[0] is FeedbackResult.APPROVED
