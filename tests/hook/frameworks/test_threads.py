"""The threads of frameworks that keep none themselves, when two processes are at one of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.frameworks.threads import Ended, Held, Threads
from placet.hook.outcomes import UNKNOWN
from placet.hook.policy import Gate, ToolConfig

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
    threads = Threads([HumanInTheLoopHook({"*": True})], saver)
    held = threads.open("t", "go")
    assert isinstance(held, Held)
    gates = {"c1": Gate(description="", config=ToolConfig())}
    waiting = threads.pause(held, '{"messages": []}', [SQL], gates, {})
    assert waiting is not None

    def other() -> None:
        taken = threads.take("t", waiting.approve_all())
        assert isinstance(taken, Held)
        threads.finish(taken, '{"messages": ["done"]}')

    saver.meanwhile = other
    assert threads.take("t", waiting.approve_all()) == Ended(state='{"messages": ["done"]}')


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_call_that_is_cancelled_is_told_as_unknown_at_once_or_runs_again(repeatable: bool) -> None:
    threads = Threads(
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
        cancelled = asyncio.create_task(threads.once(turn, SQL, SQL, runs))
        await running.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return str(await threads.once(turn, SQL, SQL, runs))

    assert asyncio.run(played()) == ("ran" if repeatable else UNKNOWN)
