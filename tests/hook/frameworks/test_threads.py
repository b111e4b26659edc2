"""The threads of frameworks that keep none themselves, when two processes are at one of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.approval_rules import ReviewRequirement, ToolConfig
from placet.hook.frameworks.thread_store import ClaimedThread, FinishedThread, FrameworkThreads
from placet.hook.result_texts import OUTCOME_UNKNOWN

SQL = ToolCall(id="c1", name="execute_sql", arguments={"query": "q"})


def test_an_answer_that_arrives_while_another_process_finishes_gets_the_outcome() -> None:
    class Slow(MemorySaver):
        meanwhile: Callable[[], None] | None = None

        def get(self, thread_id: str) -> Any:
            if "#" in thread_id and (meanwhile := self.meanwhile) is not None:
                self.meanwhile = None
                meanwhile()
            return super().get(thread_id)

    saver = Slow()
    threads = FrameworkThreads([HumanInTheLoopHook({"*": True})], saver)
    held = threads.open("t", "go")
    assert isinstance(held, ClaimedThread)
    gates = {"c1": ReviewRequirement(description="", config=ToolConfig())}
    waiting = threads.pause(held, '{"messages": []}', [SQL], gates, {})
    assert waiting is not None

    def other() -> None:
        taken = threads.take("t", waiting.approve_all())
        assert isinstance(taken, ClaimedThread)
        threads.finish(taken, '{"messages": ["done"]}')

    saver.meanwhile = other
    assert threads.take("t", waiting.approve_all()) == FinishedThread(state='{"messages": ["done"]}')


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_call_that_is_cancelled_is_told_as_unknown_at_once_or_runs_again(repeatable: bool) -> None:
    threads = FrameworkThreads(
        [HumanInTheLoopHook({"*": True})], MemorySaver(), repeatable=["execute_sql"] if repeatable else []
    )
    turn = "t#1"
    began: list[int] = []
    running = asyncio.Event()
    threads.gate.stop(turn, [SQL])
    threads.gate.answer(turn, {"c1": "approve"})

    async def runs() -> str:
        began.append(1)
        running.set()
        if len(began) == 1:
            await asyncio.Event().wait()
        return "ran"

    async def played() -> str:
        cancelled = asyncio.create_task(threads.run_once(turn, SQL, SQL, runs))
        await running.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return str(await threads.run_once(turn, SQL, SQL, runs))

    assert asyncio.run(played()) == ("ran" if repeatable else OUTCOME_UNKNOWN)
