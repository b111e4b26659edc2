"""The threads of frameworks that keep none themselves, when two processes are at one of them."""

from collections.abc import Callable
from typing import Any

from assent.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from assent.hook.frameworks.threads import Ended, Held, Threads
from assent.hook.policy import Gate, ToolConfig

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
