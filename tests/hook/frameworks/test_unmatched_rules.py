"""Rules that match no tool, and inner agents without approval, are refused before a tool runs."""

import asyncio
from typing import Any

import pytest
from agents import Agent, function_tool
from agents import Tool as SdkTool
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from placet.errors import HookError
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config
from tests.hook.frameworks.openai_agents_harness import ScriptedSdkModel as SdkModel

MISSPELLED = HumanInTheLoopHook({"execute_sqll": True})
SQL = ToolCall(id="c1", name="execute_sql", arguments={"query": "DROP"})
TASK = ToolCall(id="c0", name="task", arguments={"work": "clean up"})
MEANT = "execute_sqll matches no tool, so it stops nothing. Did you mean execute_sql?"


class Database:
    """A tool that records what it did, as each framework takes it."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def execute_sql(self, query: str) -> str:
        """Run SQL."""
        self.ran.append(query)
        return "ok"

    def langchain_agent(self, *turn: ToolCall, tools: Any = (), **named: Any) -> Any:
        model = ScriptedModel(scene=Scene(turns=(turn,)))
        return create_agent(model, [tool(self.execute_sql), *tools], **named)


def with_approval(hook: HumanInTheLoopHook) -> dict[str, Any]:
    return {"middleware": [ApprovalMiddleware(hook, saver=MemorySaver())], "checkpointer": InMemorySaver()}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_misspelled_tool_name_does_not_let_langchain_run_the_tool(is_async: bool) -> None:
    database = Database()
    agent = database.langchain_agent(SQL, **with_approval(MISSPELLED))
    with pytest.raises(HookError) as refused:
        asyncio.run(agent.ainvoke(GO, thread_config("t"))) if is_async else agent.invoke(
            GO, thread_config("t")
        )
    assert MEANT in refused.value.message
    assert database.ran == []


def test_a_misspelled_tool_name_does_not_let_pydantic_ai_run_the_tool() -> None:
    database = Database()

    def reply(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        if len(messages) > 1:
            return PydanticResponse([TextPart("done")])
        return PydanticResponse([ToolCallPart("execute_sql", {"query": "DROP"}, "c1")])

    approval = PydanticAIApproval(MISSPELLED, saver=MemorySaver())
    agent = PydanticAgent(FunctionModel(reply), tools=[database.execute_sql], capabilities=[approval])
    with pytest.raises(HookError) as refused:
        asyncio.run(approval.run(agent, "go", thread_id="t"))
    assert MEANT in refused.value.message
    assert database.ran == []


def build_sdk_agent(approval: OpenAIAgentsApproval, database: Database, **named: Any) -> Agent[Any]:
    tools: list[SdkTool] = [function_tool(database.execute_sql)]
    model = SdkModel(Scene(turns=((SQL,),)))
    return Agent(name="clerk", model=model, tools=approval.gate_tools(tools), **named)


def test_a_misspelled_tool_name_does_not_let_openai_agents_run_the_tool() -> None:
    database, approval = Database(), OpenAIAgentsApproval(MISSPELLED, saver=MemorySaver())
    with pytest.raises(HookError) as refused:
        asyncio.run(approval.run(build_sdk_agent(approval, database), "go", thread_id="t"))
    assert MEANT in refused.value.message
    assert database.ran == []


def test_a_rule_for_a_tool_of_an_agent_that_is_handed_over_to_is_accepted() -> None:
    hook = HumanInTheLoopHook({"execute_sql": True})
    approval = OpenAIAgentsApproval(hook, saver=MemorySaver())
    other = build_sdk_agent(approval, Database())
    front = Agent(name="front", model=SdkModel(Scene(turns=())), handoffs=[other])
    assert asyncio.run(approval.run(front, "go", thread_id="t")) is not None


def test_langchain_middleware_without_hooks_is_refused() -> None:
    with pytest.raises(ValueError, match="every call would run without approval"):
        ApprovalMiddleware(saver=MemorySaver())


def build_deep_agent(database: Database, hook: HumanInTheLoopHook, **inner: Any) -> Any:
    """Return an agent with a tool that runs a subagent, as deep agents have."""
    subagent = database.langchain_agent(SQL, **inner)

    async def atask(work: str) -> str:
        return (await subagent.ainvoke({"messages": [("user", work)]}))["messages"][-1].text

    def task(work: str) -> str:
        """Have a subagent do it."""
        return subagent.invoke({"messages": [("user", work)]})["messages"][-1].text

    both = StructuredTool.from_function(task, atask)
    return database.langchain_agent(TASK, tools=[both], **with_approval(hook))


def run_agent(agent: Any, is_async: bool) -> Any:
    if is_async:
        return asyncio.run(agent.ainvoke(GO, thread_config("t")))
    return agent.invoke(GO, thread_config("t"))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "hook",
    [HumanInTheLoopHook({"execute_sql": True}), HumanInTheLoopHook(everything_except=["task"])],
    ids=["named", "everything"],
)
def test_a_subagent_without_the_middleware_does_not_run_a_gated_tool(
    hook: HumanInTheLoopHook, is_async: bool
) -> None:
    database = Database()
    agent = build_deep_agent(database, hook)
    with pytest.raises(HookError, match="an inner agent calls it without"):
        run_agent(agent, is_async)
    assert database.ran == []


def test_an_approved_subagent_without_the_middleware_does_not_run_a_gated_tool() -> None:
    database = Database()
    agent = build_deep_agent(database, HumanInTheLoopHook({"execute_sql": True, "task": True}))
    agent.invoke(GO, thread_config("t"))
    with pytest.raises(HookError, match="an inner agent calls it without"):
        resume(agent, "t", {"c0": "approve"})
    assert database.ran == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_subagent_whose_middleware_has_no_rule_for_a_gated_tool_does_not_run_it(is_async: bool) -> None:
    database, other = Database(), HumanInTheLoopHook({"look": True}, optional=["look"])
    inner = {"middleware": [ApprovalMiddleware(other, saver=MemorySaver())]}
    agent = build_deep_agent(database, HumanInTheLoopHook({"execute_sql": True}), **inner)
    with pytest.raises(HookError, match="with a rule for execute_sql"):
        run_agent(agent, is_async)
    assert database.ran == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_subagent_whose_middleware_exempts_a_gated_tool_runs_it(is_async: bool) -> None:
    database, exempt = Database(), HumanInTheLoopHook({"execute_sql": False})
    inner = {"middleware": [ApprovalMiddleware(exempt, saver=MemorySaver())]}
    run_agent(build_deep_agent(database, HumanInTheLoopHook({"execute_sql": True}), **inner), is_async)
    assert database.ran == ["DROP"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_subagent_with_the_middleware_asks(is_async: bool) -> None:
    database, hook = Database(), HumanInTheLoopHook({"execute_sql": True})
    agent = build_deep_agent(database, hook, middleware=[ApprovalMiddleware(hook, saver=MemorySaver())])
    asked = interruption_of(run_agent(agent, is_async))
    assert asked is not None
    assert database.ran == []
    result = resume(agent, "t", asked.approve_all())
    assert list_results(result["messages"]) == [("c0", "done")]
    assert database.ran == ["DROP"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_subagent_runs_tools_that_need_nobody(is_async: bool) -> None:
    database = Database()
    rules = HumanInTheLoopHook({"execute_sql": False, "task": False})
    run_agent(build_deep_agent(database, rules), is_async)
    assert database.ran == ["DROP"]
