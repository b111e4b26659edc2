"""A message that cancels what waits, in frameworks without threads of their own: nothing of it runs."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from pydantic_ai import Agent

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.frameworks import openai_agents, pydantic_ai
from placet.testing.approvals import LAST_WORDS, Scene
from placet.testing.clock import FakeClock
from tests.hook.frameworks.openai_agents_harness import QUIET, ScriptedSdkModel
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model

PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann"})
AGAIN = ToolCall(id="c2", name="pay", arguments={"to": "Bob"})
MAIL = ToolCall(id="c3", name="mail", arguments={"to": "Ann"})


class Desk:
    """An agent whose calls of `pay` wait as `config` says; those of `mail` need nobody."""

    def __init__(self, config: ToolConfig, *turn: ToolCall) -> None:
        self.did: list[str] = []
        self.clock = FakeClock()
        self.hook = HumanInTheLoopHook({"pay": config}, on_new_message="cancel")
        self.scene = Scene(turns=(turn,))

    def pay(self, to: str) -> str:
        """Pay somebody."""
        self.did.append(f"paid {to}")
        return self.did[-1]

    def mail(self, to: str) -> str:
        """Write to somebody."""
        self.did.append(f"wrote to {to}")
        return self.did[-1]

    def pydantic_ai(self) -> tuple[Any, Any, dict[str, Any]]:
        approval = pydantic_ai.PydanticAIApproval(
            self.hook, saver=MemorySaver(clock=self.clock), clock=self.clock
        )
        tools = [self.pay, self.mail]
        return approval, Agent(make_scripted_model(self.scene), tools=tools, capabilities=[approval]), {}

    def openai_agents(self) -> tuple[Any, Any, dict[str, Any]]:
        approval = openai_agents.OpenAIAgentsApproval(
            self.hook, saver=MemorySaver(clock=self.clock), clock=self.clock
        )
        tools = approval.gate_tools([function_tool(self.pay), function_tool(self.mail)])
        return (
            approval,
            OpenAIAgent("a", model=ScriptedSdkModel(self.scene), tools=tools),
            {"run_config": QUIET},
        )


FRAMEWORKS: dict[str, Callable[[Desk], tuple[Any, Any, dict[str, Any]]]] = {
    "pydantic-ai": Desk.pydantic_ai,
    "openai-agents": Desk.openai_agents,
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("config", "turn", "said"),
    [
        (ToolConfig(timeout=60), (PAY,), None),
        (ToolConfig(allowed_decisions=("approve",)), (PAY,), None),
        (ToolConfig(), (PAY, MAIL), None),
        (ToolConfig(), (PAY, AGAIN), {"c1": "approve"}),
    ],
    ids=["late", "not to be rejected", "beside one that needs nobody", "half approved"],
)
def test_a_message_cancels_all_that_waits(
    framework: str, config: ToolConfig, turn: tuple[ToolCall, ...], said: dict[str, str] | None
) -> None:
    desk = Desk(config, *turn)
    approval, agent, options = FRAMEWORKS[framework](desk)

    async def played() -> Any:
        assert isinstance(await approval.run(agent, "Go.", thread_id="t", **options), InterruptionMetadata)
        if said is not None:
            await approval.resume(agent, "t", said, **options)
        desk.clock.advance(timedelta(minutes=2))
        return await approval.run(agent, "No, stop.", thread_id="t", **options)

    result = asyncio.run(played())
    assert LAST_WORDS in (getattr(result, "output", None), getattr(result, "final_output", None))
    assert desk.did == []
