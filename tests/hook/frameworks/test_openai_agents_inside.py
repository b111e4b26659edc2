"""Agents inside agents of the OpenAI SDK: no call of theirs that needs a review runs without one."""

import asyncio
from typing import Any

import pytest
from agents import Agent, FunctionTool, Handoff, RunConfig, function_tool

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.testing.approvals import Scene
from tests.hook.frameworks.openai_agents_harness import QUIET, ScriptedSdkModel

PAY = ToolCall(id="c1", name="pay", arguments={"amount": 1})
ASK = ToolCall(id="c0", name="inner", arguments={"input": "pay"})


class Till:
    """A gated tool, as a tool of the SDK, which is not behind the gate."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        hook = HumanInTheLoopHook({"pay": True}, optional=["pay"])
        self.approval = OpenAIAgentsApproval(hook, saver=MemorySaver())

    def build_tool(self) -> FunctionTool:
        @function_tool
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return "paid"

        return pay

    def run(self, agent: Agent[Any], **named: Any) -> Any:
        options = {"run_config": QUIET, **named}
        return asyncio.run(self.approval.run(agent, "go", thread_id="t", **options))


def build_agent(name: str, *turns: ToolCall, **named: Any) -> Agent[Any]:
    return Agent(name=name, model=ScriptedSdkModel(Scene(turns=tuple((turn,) for turn in turns))), **named)


def build_outer(inner: Agent[Any]) -> Agent[Any]:
    return build_agent("outer", ASK, tools=[inner.as_tool("inner", "Pays.")])


def test_a_tool_that_an_inner_agent_gets_while_it_runs_does_not_run_unasked() -> None:
    @function_tool
    def grow() -> str:
        """Get another tool."""
        inner.tools.append(till.build_tool())
        return "ok"

    till = Till()
    inner = build_agent("inner", ToolCall(id="c2", name="grow", arguments={}), PAY, tools=[grow])
    till.run(build_outer(inner))
    assert [tool.name for tool in inner.tools] == ["grow", "pay"]
    assert till.paid == []


def test_an_agent_behind_an_opaque_handoff_of_an_inner_agent_does_not_run_unasked() -> None:
    async def hand_over(context: Any, given: str) -> Agent[Any]:
        return payer

    till = Till()
    payer = build_agent("payer", PAY, tools=[till.build_tool()])
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    handoff = Handoff("to_payer", "", schema, hand_over, "payer")
    inner = build_agent("inner", ToolCall(id="c2", name="to_payer", arguments={}), handoffs=[handoff])
    till.run(build_outer(inner))
    assert till.paid == []


def test_an_agent_that_is_its_own_tool_does_not_run_unasked() -> None:
    till = Till()
    agent = build_agent("inner", ASK, PAY, tools=[till.build_tool()])
    agent.tools.append(agent.as_tool("inner", "Pays."))
    with pytest.raises(HookError, match="pay need a review, but the tool is not gated"):
        till.run(agent)
    assert till.paid == []


def test_a_tool_behind_another_gate_is_not_behind_this_one() -> None:
    till, other = Till(), Till()
    other.approval = OpenAIAgentsApproval(
        HumanInTheLoopHook({"send": True}, optional=["send"]), saver=MemorySaver()
    )
    tools = other.approval.gate_tools([till.build_tool()])
    for agent in (build_agent("a", PAY, tools=tools), build_outer(build_agent("inner", PAY, tools=tools))):
        with pytest.raises(HookError, match="pay need a review, but the tool is not gated"):
            till.run(agent)
    assert till.paid == []


@pytest.mark.parametrize("gated", [True, False])
def test_the_callers_own_filter_still_sees_every_model_call(gated: bool) -> None:
    seen: list[str] = []

    async def look(data: Any) -> Any:
        seen.append(data.agent.name)
        return data.model_data

    def look_at_once(data: Any) -> Any:
        seen.append(data.agent.name)
        return data.model_data

    till = Till()
    config = RunConfig(tracing_disabled=True, call_model_input_filter=look if gated else look_at_once)
    till.run(build_outer(build_agent("inner")), run_config=config)
    assert seen == ["outer", "inner", "outer"]
