"""In every framework, the calls of one turn run in call order, unless their tools are named in `parallel`."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, function_tool
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent as PydanticAgent

from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.frameworks.langchain import ApprovalMiddleware, aresume, interruption_of, resume
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, list_results, thread_config
from tests.hook.frameworks.openai_agents_harness import ScriptedSdkModel
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model
from tests.waiting import PATIENCE_S

Tools = list[Callable[..., Any]]


class Workshop:
    """Tools that record when they begin and end; a slow one ends when it was overtaken, or after a moment."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.overtaken = threading.Event()
        self.meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def tools(self) -> Tools:
        return [self.write, self.run, self.meet]

    def write(self, file: str) -> str:
        """Write a file, slowly."""
        self.events.append(f"write {file}")
        self.overtaken.wait(0.1)
        self.events.append(f"wrote {file}")
        return file

    def run(self, file: str) -> str:
        """Run a file."""
        self.events.append(f"run {file}")
        self.overtaken.set()
        return f"ran {file}"

    def meet(self, file: str) -> str:
        """Wait for the other one."""
        self.meeting.wait()
        self.events.append("met")
        return file


def make_calls(*named: str) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=f"c{number}", name=name, arguments={"file": f"f{number}"})
        for number, name in enumerate(named)
    )


def run_langchain(shop: Workshop, calls: tuple[ToolCall, ...], hook: Any, **options: Any) -> None:
    approval = ApprovalMiddleware(hook, saver=MemorySaver(), **options)
    model = ScriptedModel(scene=Scene(turns=(calls,)))
    agent: Any = create_agent(
        model, [tool(each) for each in shop.tools()], middleware=[approval], checkpointer=InMemorySaver()
    )
    stopped = interruption_of(agent.invoke(GO, thread_config("t")))
    result = agent.get_state(thread_config("t")).values if stopped is None else None
    result = result or resume(agent, "t", stopped.approve_all() if stopped else None)
    assert [call_id for call_id, _ in list_results(result["messages"])] == [call.id for call in calls]


def arun_langchain(shop: Workshop, calls: tuple[ToolCall, ...], hook: Any, **options: Any) -> None:
    approval = ApprovalMiddleware(hook, saver=MemorySaver(), **options)
    model = ScriptedModel(scene=Scene(turns=(calls,)))
    agent: Any = create_agent(
        model, [tool(each) for each in shop.tools()], middleware=[approval], checkpointer=InMemorySaver()
    )

    async def main() -> Any:
        stopped = interruption_of(result := await agent.ainvoke(GO, thread_config("t")))
        return result if stopped is None else await aresume(agent, "t", stopped.approve_all())

    result = asyncio.run(main())
    assert [call_id for call_id, _ in list_results(result["messages"])] == [call.id for call in calls]


def run_pydantic_ai(shop: Workshop, calls: tuple[ToolCall, ...], hook: Any, **options: Any) -> None:
    approval = PydanticAIApproval(hook, saver=MemorySaver(), **options)
    agent = PydanticAgent(
        make_scripted_model(Scene(turns=(calls,))), tools=shop.tools(), capabilities=[approval]
    )

    async def main() -> None:
        outcome: Any = await approval.run(agent, "go", thread_id="t")
        if hook.never_stops("run"):
            return
        await approval.resume(agent, "t", outcome.approve_all())

    asyncio.run(main())


def run_openai_agents(shop: Workshop, calls: tuple[ToolCall, ...], hook: Any, **options: Any) -> None:
    approval = OpenAIAgentsApproval(hook, saver=MemorySaver(), **options)
    tools: Any = approval.gate_tools([function_tool(each) for each in shop.tools()])
    agent = Agent(name="clerk", model=ScriptedSdkModel(Scene(turns=(calls,))), tools=tools)

    async def main() -> None:
        outcome: Any = await approval.run(agent, "go", thread_id="t")
        if hook.never_stops("run"):
            return
        await approval.resume(agent, "t", outcome.approve_all())

    asyncio.run(main())


RUNNERS = [run_langchain, arun_langchain, run_pydantic_ai, run_openai_agents]
APPROVED, UNGATED = HumanInTheLoopHook({"*": True}), HumanInTheLoopHook({"*": False})


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("hook", [APPROVED, UNGATED], ids=["approved", "ungated"])
def test_a_file_is_written_before_it_is_run(run: Callable[..., None], hook: HumanInTheLoopHook) -> None:
    shop = Workshop()
    run(shop, make_calls("write", "run", "write"), hook)
    assert shop.events == ["write f0", "wrote f0", "run f1", "write f2", "wrote f2"]


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("hook", [APPROVED, UNGATED], ids=["approved", "ungated"])
def test_parallel_tools_run_at_the_same_time(run: Callable[..., None], hook: HumanInTheLoopHook) -> None:
    shop = Workshop()
    run(shop, make_calls("meet", "meet"), hook, parallel=["meet"])
    assert shop.events == ["met", "met"]


@pytest.mark.parametrize("run", RUNNERS)
def test_a_parallel_tool_does_not_overtake_one_that_is_not(run: Callable[..., None]) -> None:
    shop = Workshop()
    run(shop, make_calls("write", "run"), APPROVED, parallel=["run"])
    assert shop.events == ["write f0", "wrote f0", "run f1"]


@pytest.mark.parametrize("run", [run_langchain, arun_langchain, run_pydantic_ai])
def test_parallel_tools_run_together_between_the_others(run: Callable[..., None]) -> None:
    shop = Workshop()
    run(shop, make_calls("write", "meet", "meet", "run"), APPROVED, parallel=["meet"])
    assert shop.events == ["write f0", "wrote f0", "met", "met", "run f3"]


@pytest.mark.parametrize("run", [run_langchain, arun_langchain])
def test_more_calls_than_langgraph_has_threads_run_in_order(run: Callable[..., None]) -> None:
    shop = Workshop()
    run(shop, make_calls(*["run"] * 60), APPROVED)
    assert shop.events == [f"run f{number}" for number in range(60)]
