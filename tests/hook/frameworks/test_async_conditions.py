"""An async `when` is awaited wherever calls are evaluated, on the caller's event loop if it has one."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from mcp import Client
from mcp.server.mcpserver import MCPServer
from pydantic_ai import Agent

from placet.errors import CallRejected
from placet.hook import (
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ReactAgent,
    Saver,
    ToolCall,
    ToolConfig,
    requires_approval,
)
from placet.hook.approval_rules import ReviewRequirement
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.upstream import McpUpstream
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.gate import Gate
from placet.hook.savers.sqlite import SqliteSaver
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.openai_agents_harness import QUIET, ScriptedSdkModel
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model
from tests.hook.scripted_model import Scripted, call

When = Callable[[ToolCall, Any], Any]
ONE_PAYMENT = Scene(turns=((ToolCall(id="a", name="pay", arguments={"amount": 5}),),))


class Till:
    """A tool, a condition on it that awaits, and what became of them."""

    def __init__(self, verdict: object) -> None:
        self.verdict = verdict
        self.paid: list[int] = []
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def when(self, call: ToolCall, state: Any) -> Any:
        self.loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return "paid"

    @property
    def hook(self) -> HumanInTheLoopHook:
        return HumanInTheLoopHook({"pay": ToolConfig(when=self.when)})


def build_react(till: Till, saver: Saver) -> ReactAgent:
    model = Scripted([call("a", "pay", amount=5)], "done")
    return ReactAgent("clerk", model, [till.pay], [till.hook], saver)


async def in_react_agent(till: Till, saver: Saver) -> None:
    await build_react(till, saver).ainvoke("go", thread_id="t")


async def in_a_stream(till: Till, saver: Saver) -> None:
    async for _ in build_react(till, saver).astream("go", thread_id="t"):
        pass


async def in_decorator(till: Till, saver: Saver) -> None:
    async def pay(amount: int) -> str:
        return till.pay(amount)

    gated = requires_approval(when=till.when, saver=saver, ask=reject)(pay)
    await asyncio.gather(gated(5), return_exceptions=True)


def reject(waiting: InterruptionMetadata) -> dict[str, Any]:
    return {"call": "reject"}


def build_langchain(till: Till, saver: Saver) -> Any:
    approval = ApprovalMiddleware(till.hook, saver=saver)
    model, kept = ScriptedModel(scene=ONE_PAYMENT), InMemorySaver()
    return create_agent(model, [langchain_tool(till.pay)], middleware=[approval], checkpointer=kept)


async def in_langchain(till: Till, saver: Saver) -> None:
    assert (interruption_of(await build_langchain(till, saver).ainvoke(GO, thread_config("t"))) is None) is (
        till.verdict is False
    )


def build_pydantic_ai(till: Till, saver: Saver) -> tuple[PydanticAIApproval, Agent[None, Any]]:
    approval = PydanticAIApproval(till.hook, saver=saver)
    return approval, Agent(make_scripted_model(ONE_PAYMENT), tools=[till.pay], capabilities=[approval])


async def in_pydantic_ai(till: Till, saver: Saver) -> None:
    approval, agent = build_pydantic_ai(till, saver)
    await approval.run(agent, "go", thread_id="t")


def build_openai_agents(till: Till, saver: Saver) -> tuple[OpenAIAgentsApproval, OpenAIAgent[Any]]:
    approval = OpenAIAgentsApproval(till.hook, saver=saver)
    tools = approval.gate_tools([function_tool(till.pay)])
    return approval, OpenAIAgent("a", model=ScriptedSdkModel(ONE_PAYMENT), tools=tools)


async def in_openai_agents(till: Till, saver: Saver) -> None:
    approval, agent = build_openai_agents(till, saver)
    await approval.run(agent, "go", thread_id="t", run_config=QUIET)


async def in_mcp(till: Till, saver: Saver) -> None:
    behind = MCPServer("till", log_level="ERROR")
    behind.add_tool(till.pay)
    async with McpUpstream(lambda: behind) as upstream:
        proxy = ApprovalProxy(upstream, till.hook, saver=saver, wait_for=0)
        async with Client(await proxy.server()) as client:
            await client.call_tool("pay", {"amount": 5})


def in_sync_react_agent(till: Till, saver: Saver) -> None:
    build_react(till, saver).invoke("go", thread_id="t")


def in_sync_decorator(till: Till, saver: Saver) -> None:
    gated = requires_approval(when=till.when, saver=saver, ask=reject)(till.pay)
    with suppress(CallRejected):
        gated(5)


def in_sync_langchain(till: Till, saver: Saver) -> None:
    build_langchain(till, saver).invoke(GO, thread_config("t"))


def in_sync_pydantic_ai(till: Till, saver: Saver) -> None:
    approval, agent = build_pydantic_ai(till, saver)
    approval.run_sync(agent, "go", thread_id="t")


def in_sync_openai_agents(till: Till, saver: Saver) -> None:
    approval, agent = build_openai_agents(till, saver)
    approval.run_sync(agent, "go", thread_id="t", run_config=QUIET)


AWAITED: list[Callable[[Till, Saver], Coroutine[Any, Any, None]]] = [
    in_react_agent, in_a_stream, in_decorator, in_langchain, in_pydantic_ai, in_openai_agents, in_mcp,
]  # fmt: skip
BLOCKING: list[Callable[[Till, Saver], None]] = [
    in_sync_react_agent, in_sync_decorator, in_sync_langchain, in_sync_pydantic_ai, in_sync_openai_agents,
]  # fmt: skip
VERDICTS = pytest.mark.parametrize(
    "verdict", [False, True, None, 0, "no", RuntimeError("no answer")], ids=repr
)


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield MemorySaver()
        return
    kept = SqliteSaver(tmp_path / "threads.db")
    yield kept
    kept.close()


@VERDICTS
@pytest.mark.parametrize("run", AWAITED)
def test_an_async_condition_is_awaited_on_the_loop_of_its_caller(
    run: Callable[[Till, Saver], Coroutine[Any, Any, None]], verdict: object, saver: Saver
) -> None:
    async def start() -> None:
        await run(till, saver)
        assert {*till.loops} == {asyncio.get_running_loop()}

    till = Till(verdict)
    asyncio.run(asyncio.wait_for(start(), 60))
    assert till.paid == ([5] if verdict is False else [])


@VERDICTS
@pytest.mark.parametrize("run", BLOCKING)
def test_an_async_condition_is_awaited_by_programs_that_block(
    run: Callable[[Till, Saver], None], verdict: object, saver: Saver
) -> None:
    till = Till(verdict)
    run(till, saver)
    assert len(till.loops) == 1
    assert till.paid == ([5] if verdict is False else [])


def test_an_async_condition_is_awaited_in_a_notebook_that_runs_a_loop() -> None:
    async def cell() -> None:
        build_react(till, MemorySaver()).invoke("go", thread_id="t")

    till = Till(False)
    asyncio.run(cell())
    assert till.paid == [5]


class Inspector:
    """A hook of its own kind, which awaits."""

    async def evaluate(self, call: ToolCall, state: Any) -> ReviewRequirement | None:
        await asyncio.sleep(0)
        return (
            ReviewRequirement(description="", config=ToolConfig()) if call.arguments["amount"] > 9 else None
        )


@pytest.mark.parametrize("amount", [5, 10])
def test_a_hook_may_be_async(amount: int) -> None:
    till = Till(False)
    model = Scripted([call("a", "pay", amount=amount)], "done")
    agent = ReactAgent("clerk", model, [till.pay], [Inspector()], MemorySaver())
    assert isinstance(agent.invoke("go"), InterruptionMetadata) is (amount > 9)
    gate = Gate([Inspector()], MemorySaver())
    stopped = gate.stop("k", [ToolCall(id="a", name="pay", arguments={"amount": amount})])
    assert (stopped is not None) is (amount > 9)


def test_a_turn_is_not_evaluated_again_by_calls_that_start_together(saver: Saver) -> None:
    calls = tuple(ToolCall(id=str(each), name="pay", arguments={"amount": each}) for each in range(4))
    till = Till(False)
    approval = PydanticAIApproval(till.hook, saver=saver, parallel=["pay"])
    model = make_scripted_model(Scene(turns=(calls,)))
    agent = Agent(model, tools=[till.pay], capabilities=[approval])
    asyncio.run(approval.run(agent, "go", thread_id="t"))
    assert (len(till.loops), sorted(till.paid)) == (4, [0, 1, 2, 3])


def test_a_cancelled_run_whose_condition_hangs_runs_nothing(saver: Saver) -> None:
    class Stuck(Till):
        async def when(self, call: ToolCall, state: Any) -> Any:
            await asyncio.Event().wait()

    async def start() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(build_react(till, saver).ainvoke("go", thread_id="t"), 0.1)

    till = Stuck(False)
    asyncio.run(start())
    assert till.paid == []
