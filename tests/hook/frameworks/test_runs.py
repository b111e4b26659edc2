"""Runs in kept threads that are cancelled before they have begun, whatever the framework."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai import Agent as PydanticAgent

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval as OpenAIApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval as PydanticApproval
from placet.testing.approvals import LAST_WORDS, Scene
from tests.hook.frameworks.openai_agents_harness import QUIET
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model

HOOK = HumanInTheLoopHook({"pay": True})
PATIENCE_S = 30
Made = tuple[Any, Any, dict[str, Any]]
"""An approval, an agent behind it, and with what it runs."""


class SlowSaver(MemorySaver):
    """A storage at which a thread may take long to claim."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.claiming, self.go_on, self.given_back = threading.Event(), threading.Event(), threading.Event()

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        if self.slow:
            self.claiming.set()
            assert self.go_on.wait(PATIENCE_S)
        super().claim(checkpoint, lease_for=lease_for)

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        super().put(checkpoint, lease_for=lease_for)
        if self.slow and checkpoint.stage == "ready":
            self.given_back.set()


def make_pydantic_ai(saver: SlowSaver, pay: Callable[[], str]) -> Made:
    approval = PydanticApproval(HOOK, saver=saver)
    model = make_scripted_model(Scene(turns=((ToolCall(id="c1", name="pay"),),)))
    return approval, PydanticAgent(model, tools=[pay], capabilities=[approval]), {}


def make_openai_agents(saver: SlowSaver, pay: Callable[[], str]) -> Made:
    approval = OpenAIApproval(HOOK, saver=saver)
    model = ScriptedModel([[function_call("pay", {}, call_id="c1")], [assistant_message(LAST_WORDS)]])
    agent = OpenAIAgent(name="agent", model=model, tools=approval.gate_tools([function_tool(pay)]))
    return approval, agent, {"run_config": QUIET}


@pytest.mark.parametrize("make", [make_pydantic_ai, make_openai_agents])
def test_a_run_that_is_cancelled_while_its_thread_is_taken_gives_it_back(
    make: Callable[[SlowSaver, Callable[[], str]], Made],
) -> None:
    saver, paid = SlowSaver(), []

    def pay() -> str:
        """Pay somebody."""
        paid.append(1)
        return "paid"

    approval, agent, options = make(saver, pay)

    async def played() -> Any:
        waiting = await approval.run(agent, "Go.", thread_id="t", **options)
        assert isinstance(waiting, InterruptionMetadata)
        saver.slow = True
        run = asyncio.create_task(approval.resume(agent, "t", waiting.approve_all(), **options))
        assert await asyncio.to_thread(saver.claiming.wait, PATIENCE_S)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        saver.go_on.set()
        assert await asyncio.to_thread(saver.given_back.wait, PATIENCE_S), "the thread stays taken"
        saver.slow = False
        return await approval.resume(agent, "t", waiting.approve_all(), **options)

    result = asyncio.run(played())
    assert not isinstance(result, InterruptionMetadata)
    assert paid == [1]
