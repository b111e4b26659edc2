"""However a run is broken off, its thread can be taken up at once, and tells the truth about its calls."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import ModelMisbehaved
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, SqliteSaver, tool
from placet.hook.checkpoint import Checkpoint
from placet.hook.events import ToolAnswered
from placet.hook.result_texts import OUTCOME_UNKNOWN
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_program_that_is_interrupted_in_a_tool_can_resume_at_once(error: type[BaseException]) -> None:
    def dies() -> None:
        raise error

    def works() -> str:
        return "worked"

    model = Scripted([call("1", "works"), call("2", "dies")], "done")
    agent = ReactAgent("a", model, [works, dies], saver=MemorySaver())
    with pytest.raises(error):
        agent.invoke("go", thread_id="t")
    expect_result(agent.resume("t"))
    assert model.results() == ["worked", OUTCOME_UNKNOWN]


def test_a_cancelled_run_can_be_resumed_at_once_and_says_that_the_outcome_is_unknown(tmp_path: Any) -> None:
    async def played() -> None:
        began = asyncio.Event()

        async def endless() -> None:
            began.set()
            await asyncio.Event().wait()

        model = Scripted([call("1", "endless")], "done")
        agent = ReactAgent("a", model, [endless], saver=SqliteSaver(tmp_path / "threads.db"))
        run = asyncio.create_task(agent.ainvoke("go", thread_id="t"))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        expect_result(await agent.aresume("t"))
        assert model.results() == [OUTCOME_UNKNOWN]
        agent.saver.close()

    asyncio.run(played())


def test_a_tool_that_is_cancelled_from_within_is_told_as_failed() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    model = Scripted([call("1", "gives_up")], "done")
    expect_result(asyncio.run(ReactAgent("a", model, [gives_up], saver=MemorySaver()).ainvoke("go")))
    assert "failed" in model.results()[0]


def test_thread_of_a_closed_stream_can_be_resumed_at_once() -> None:
    office = Office()
    agent = ReactAgent("a", Scripted([call("1", "read_data")], "done"), office.tools, saver=MemorySaver())
    for event in agent.stream("go", thread_id="t"):
        if isinstance(event, ToolAnswered):
            break
    expect_result(agent.resume("t"))

    async def listened() -> None:
        events = agent.astream("go", thread_id="u")
        async for event in events:
            if isinstance(event, ToolAnswered):
                break
        await events.aclose()  # type: ignore[attr-defined]
        expect_result(await agent.aresume("u"))

    asyncio.run(listened())
    assert office.ran == [("read_data",)] * 2


def test_answers_given_one_by_one_survive_that_someone_else_answers_first() -> None:
    office = Office()
    others: list[int] = []

    class Contested(MemorySaver):
        def claim(self, checkpoint: Any, **named: Any) -> None:
            if not others:
                others.append(1)
                kept = self.get("t")
                assert kept is not None
                self.put(kept.checkpoint.next())
            super().claim(checkpoint, **named)

    hook = HumanInTheLoopHook({"execute_sql": True})
    model = Scripted([call("1", "execute_sql", query="q")], "done")
    agent = ReactAgent("a", model, office.tools, [hook], Contested())
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    expect_result(agent.resume("t", (each.approve() for each in waiting.tool_feedbacks)))
    assert office.ran == [("execute_sql", "q")]


def test_a_call_changed_into_a_tool_that_may_not_repeat_is_not_run_again_although_the_first_one_may() -> None:
    ran: list[int] = []

    @tool(repeatable=True)
    def quote(amount: int) -> None:
        """Say what it would cost."""

    def pay(amount: int) -> None:
        """Pay."""
        ran.append(amount)
        raise KeyboardInterrupt

    model = Scripted([call("1", "quote", amount=1)], "done")
    agent = ReactAgent("a", model, [quote, pay], [HumanInTheLoopHook({"*": True})], saver=MemorySaver())
    asked = expect_interruption(agent.invoke("go", thread_id="t"))
    again = expect_interruption(agent.resume("t", asked.edit("1", {"amount": 2}, name="pay")))
    with pytest.raises(KeyboardInterrupt):
        agent.resume("t", again.approve_all())
    expect_result(agent.resume("t"))
    assert ran == [2]
    assert model.results() == [OUTCOME_UNKNOWN]


def test_an_answer_that_comes_again_brings_the_same_outcome_although_messages_were_queued() -> None:
    model = Scripted([call("1", "execute_sql", query="q")], "did it", "that too", "and that")
    hook = HumanInTheLoopHook({"execute_sql": True}, on_new_message="queue")
    agent = ReactAgent("a", model, Office().tools, [hook], saver=MemorySaver())
    approved = expect_interruption(agent.invoke("go", thread_id="t")).approve_all()
    agent.invoke("do that too", thread_id="t")
    agent.invoke("and that", thread_id="t")
    first = expect_result(agent.resume("t", approved))
    assert first.text == "and that"
    assert agent.resume("t", approved) == first


def test_answer_that_failed_is_not_reported_as_in_progress() -> None:
    model = Scripted(*[[call(str(turn), "execute_sql", query="q")] for turn in range(3)])
    hook = HumanInTheLoopHook({"execute_sql": True})
    agent = ReactAgent("a", model, Office().tools, [hook], max_turns=1, saver=MemorySaver())
    approved = expect_interruption(agent.invoke("go", thread_id="t")).approve_all()
    again = expect_interruption(agent.resume("t", approved)).reject_all()
    agent = ReactAgent(
        "a", lambda messages: {"tool_calls": [call("9", "nothing")]}, max_turns=1, saver=agent.saver
    )
    for _ in range(2):
        with pytest.raises(ModelMisbehaved):
            agent.resume("t", again)


def test_a_run_that_is_cancelled_while_its_thread_is_claimed_gives_it_back() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(MemorySaver):
        blocking = True

        def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
            entered.set()
            assert leave.wait(60)
            super().claim(checkpoint, lease_for=lease_for)

    async def played() -> None:
        model = Scripted([call("1", "execute_sql", query="q")], "done")
        hook = HumanInTheLoopHook({"execute_sql": True})
        agent = ReactAgent("a", model, Office().tools, [hook], Slow())
        approved = expect_interruption(await agent.ainvoke("go", thread_id="t")).approve_all()
        run = asyncio.create_task(agent.aresume("t", approved))
        assert await asyncio.to_thread(entered.wait, 10)
        run.cancel()
        await asyncio.sleep(0)
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        expect_result(await agent.aresume("t", approved))

    asyncio.run(played())


def test_a_storage_that_counts_as_empty_is_used_all_the_same() -> None:
    class Counted(MemorySaver):
        def __len__(self) -> int:
            return len(self.list_threads("ready"))

    saver = Counted()
    ReactAgent("a", Scripted("done"), saver=saver).invoke("go", thread_id="t")
    assert len(saver) == 1
