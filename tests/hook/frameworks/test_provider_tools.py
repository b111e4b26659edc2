"""Tools that the model's provider runs cannot wait: a rule that stops one is refused."""

import asyncio
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import (
    CodeInterpreterTool,
    HostedMCPTool,
    ShellTool,
    ToolSearchTool,
    WebSearchTool,
    function_tool,
)
from agents import Tool as SdkTool
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.native_tools import CodeExecutionTool
from pydantic_ai.native_tools import WebSearchTool as NativeSearch

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.approval_rules import Hook, ReviewRequirement, ToolConfig
from placet.hook.frameworks.langchain import ApprovalMiddleware
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.openai_agents_harness import QUIET, ScriptedSdkModel
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model

NO_CALLS = Scene(turns=())


def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"


def hosted_mcp(**named: Any) -> HostedMCPTool:
    config: Any = {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", **named}
    return HostedMCPTool(tool_config=config)


def run_sdk(hook: Hook, *tools: SdkTool) -> Any:
    approval = OpenAIAgentsApproval(hook, saver=MemorySaver())
    agent = OpenAIAgent(
        "a", model=ScriptedSdkModel(NO_CALLS), tools=approval.gate_tools([function_tool(pay), *tools])
    )
    outer = OpenAIAgent("b", model=ScriptedSdkModel(NO_CALLS), handoffs=[agent])
    for each in (agent, outer):
        asyncio.run(approval.run(each, "go", thread_id=each.name, run_config=QUIET))


ALL = HumanInTheLoopHook({"*": True})
INTERPRETER: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
CONTAINER: Any = {"type": "container_auto"}
HOSTED: list[tuple[str, SdkTool]] = [
    ("web_search", WebSearchTool()),
    ("code_interpreter", CodeInterpreterTool(tool_config=INTERPRETER)),
    ("shell", ShellTool(environment=CONTAINER)),
    ("hosted_mcp", hosted_mcp(require_approval="never")),
    ("hosted_mcp", hosted_mcp(require_approval={"never": {"tool_names": ["pay"]}})),
    ("tool_search", ToolSearchTool()),
]


@pytest.mark.parametrize(("name", "hosted"), HOSTED, ids=[name for name, _ in HOSTED])
def test_a_rule_for_a_tool_that_openai_runs_is_refused(name: str, hosted: SdkTool) -> None:
    for hook in (HumanInTheLoopHook({name: True}), ALL):
        with pytest.raises(HookError, match=f"Calls of {name} need a review.*provider"):
            run_sdk(hook, hosted)
    run_sdk(HumanInTheLoopHook(everything_except=[name]), hosted)
    run_sdk(HumanInTheLoopHook({"pay": True}), hosted)


def test_a_hosted_mcp_server_that_asks_is_accepted() -> None:
    run_sdk(ALL, hosted_mcp(require_approval="always"))
    run_sdk(ALL, hosted_mcp())


def test_a_hosted_mcp_server_that_asks_somebody_else_is_refused() -> None:
    asks_itself = hosted_mcp(require_approval="always")
    asks_itself.on_approval_request = lambda request: {"approve": True}
    with pytest.raises(HookError, match="hosted_mcp"):
        run_sdk(ALL, asks_itself)


class Inspector:
    """A hook of another kind."""

    def evaluate(self, call: ToolCall, state: Any) -> ReviewRequirement | None:
        return ReviewRequirement(description="", config=ToolConfig()) if call.name == "web_search" else None


def test_a_hook_of_another_kind_is_asked_about_tools_that_the_provider_runs() -> None:
    with pytest.raises(HookError, match="web_search"):
        run_sdk(Inspector(), WebSearchTool())
    run_sdk(Inspector(), CodeInterpreterTool(tool_config=INTERPRETER))


def run_langchain(hook: HumanInTheLoopHook, *tools: Any) -> Any:
    approval = ApprovalMiddleware(hook, saver=MemorySaver())
    agent: Any = create_agent(
        ScriptedModel(scene=NO_CALLS),
        [langchain_tool(pay), *tools],
        middleware=[approval],
        checkpointer=InMemorySaver(),
    )
    return agent.invoke(GO, thread_config("t"))


@pytest.mark.parametrize(
    ("name", "described"),
    [("web_search", {"type": "web_search"}), ("search", {"type": "web_search_20250305", "name": "search"})],
)
def test_a_rule_for_a_tool_that_langchains_provider_runs_is_refused(
    name: str, described: dict[str, Any]
) -> None:
    with pytest.raises(HookError, match=f"Calls of {name} need a review.*provider"):
        run_langchain(ALL, described)
    run_langchain(HumanInTheLoopHook(everything_except=[name]), described)
    run_langchain(HumanInTheLoopHook({"pay": True}), described)


def run_pydantic_ai(hook: HumanInTheLoopHook, *native: Any) -> None:
    approval = PydanticAIApproval(hook, saver=MemorySaver())
    capabilities = [approval, *map(NativeTool, native)]
    agent = Agent(make_scripted_model(NO_CALLS), tools=[pay], capabilities=capabilities)
    asyncio.run(approval.run(agent, "go", thread_id="t"))


def test_a_rule_for_a_tool_that_pydantic_ais_provider_runs_is_refused() -> None:
    with pytest.raises(HookError, match=r"Calls of code_execution need a review.*provider"):
        run_pydantic_ai(ALL, CodeExecutionTool())
    run_pydantic_ai(HumanInTheLoopHook({"*": True, "web_*": False}, optional=["web_*"]), NativeSearch())
    run_pydantic_ai(HumanInTheLoopHook({"pay": True}), CodeExecutionTool(), NativeSearch())
