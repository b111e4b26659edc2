"""However a run is broken off, its thread can be taken up at once, and tells the truth about its calls."""

import asyncio
from typing import Any

import pytest

from assent.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, SqliteSaver
from assent.hook.events import ToolAnswered
from assent.hook.outcomes import UNKNOWN
from tests.hook.scripted import Office, Scripted, call, finished, stopped


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_program_that_is_interrupted_in_a_tool_can_resume_at_once(error: type[BaseException]) -> None:
    def dies() -> None:
        raise error

    def works() -> str:
        return "worked"

    model = Scripted([call("1", "works"), call("2", "dies")], "done")
    agent = ReactAgent("a", model, [works, dies])
    with pytest.raises(error):
        agent.invoke("go", thread_id="t")
    finished(agent.resume("t"))
    assert model.results() == ["worked", UNKNOWN]


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
        finished(await agent.aresume("t"))
        assert model.results() == [UNKNOWN]
        agent.saver.close()

    asyncio.run(played())


def test_a_tool_that_is_cancelled_from_within_is_told_as_failed() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    model = Scripted([call("1", "gives_up")], "done")
    finished(asyncio.run(ReactAgent("a", model, [gives_up]).ainvoke("go")))
    assert "failed" in model.results()[0]


def test_whoever_stops_listening_to_a_stream_can_resume_at_once() -> None:
    office = Office()
    agent = ReactAgent("a", Scripted([call("1", "read_data")], "done"), office.tools)
    for event in agent.stream("go", thread_id="t"):
        if isinstance(event, ToolAnswered):
            break
    finished(agent.resume("t"))

    async def listened() -> None:
        events = agent.astream("go", thread_id="u")
        async for event in events:
            if isinstance(event, ToolAnswered):
                break
        await events.aclose()  # type: ignore[attr-defined]
        finished(await agent.aresume("u"))

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
    waiting = stopped(agent.invoke("go", thread_id="t"))
    finished(agent.resume("t", (each.approve() for each in waiting.tool_feedbacks)))
    assert office.ran == [("execute_sql", "q")]
