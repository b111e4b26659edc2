"""Calls that wait on a condition: what the tool would be given counts, not what the condition saw."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, StringConstraints
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.gate import Gate
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.openai_agents_harness import QUIET, ScriptedSdkModel
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model

Function = Callable[..., Any]


def in_langchain(function: Function, hook: HumanInTheLoopHook, scene: Scene) -> InterruptionMetadata | None:
    approval = ApprovalMiddleware(hook, saver=MemorySaver())
    model, kept = ScriptedModel(scene=scene), InMemorySaver()
    agent: Any = create_agent(model, [langchain_tool(function)], middleware=[approval], checkpointer=kept)
    return interruption_of(agent.invoke(GO, thread_config("t")))


def in_pydantic_ai(function: Function, hook: HumanInTheLoopHook, scene: Scene) -> InterruptionMetadata | None:
    approval = PydanticAIApproval(hook, saver=MemorySaver())
    agent = Agent(make_scripted_model(scene), tools=[function], capabilities=[approval])
    return get_interruption(asyncio.run(approval.run(agent, "go", thread_id="t")))


def in_openai_agents(
    function: Function, hook: HumanInTheLoopHook, scene: Scene
) -> InterruptionMetadata | None:
    approval = OpenAIAgentsApproval(hook, saver=MemorySaver())
    agent = OpenAIAgent(
        "a", model=ScriptedSdkModel(scene), tools=approval.gate_tools([function_tool(function)])
    )
    return get_interruption(asyncio.run(approval.run(agent, "go", thread_id="t", run_config=QUIET)))


def get_interruption(outcome: Any) -> InterruptionMetadata | None:
    return outcome if isinstance(outcome, InterruptionMetadata) else None


FRAMEWORKS = {"langchain": in_langchain, "pydantic-ai": in_pydantic_ai, "openai-agents": in_openai_agents}
FORCED = HumanInTheLoopHook({"wipe": ToolConfig(when=lambda call, state: call.arguments["force"] is True)})


def make_scene(name: str, **arguments: Any) -> Scene:
    return Scene(turns=((ToolCall(id="c1", name=name, arguments=arguments),),))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("sent", "runs"), [("true", []), (1, []), (True, []), (False, [False])])
def test_condition_sees_coerced_booleans(framework: str, sent: Any, runs: list[bool]) -> None:
    ran: list[bool] = []

    def wipe(force: bool) -> str:
        """Wipe it."""
        ran.append(force)
        return "wiped"

    stopped = FRAMEWORKS[framework](wipe, FORCED, make_scene("wipe", force=sent))
    assert ran == runs
    assert (stopped is None) is bool(runs)


def test_a_gate_asks_about_arguments_that_no_condition_can_judge() -> None:
    schema = {"type": "object", "properties": {"force": {"type": "boolean"}}}
    gate = Gate([FORCED], MemorySaver())
    for number, (force, asks) in enumerate([("true", True), (False, False)]):
        call = ToolCall(id="c1", name="wipe", arguments={"force": force})
        assert (gate.stop(str(number), [call], schemas={"wipe": schema}) is not None) is asks
    other = ToolCall(id="c1", name="look", arguments={"force": "true"})
    assert gate.stop("other", [other], schemas={"look": schema}) is None


READS = HumanInTheLoopHook(
    {"read": ToolConfig(when=lambda call, state: call.arguments["path"].startswith("/etc"))}
)


class Redirects(AbstractCapability[Any]):
    """Makes every tool read another file."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return {**args, "path": "/etc/passwd"}


@pytest.mark.parametrize(
    ("path", "beside", "runs"),
    [(" /etc/passwd", [], "/etc/passwd"), ("notes", [Redirects()], "notes")],
    ids=["read by its type", "changed by another capability"],
)
def test_condition_judges_the_validated_arguments_of_pydantic_ai(
    path: str, beside: list[Any], runs: str
) -> None:
    ran: list[str] = []

    def read(path: Annotated[str, StringConstraints(strip_whitespace=True)], depth: int = 3) -> str:
        """Read a file."""
        ran.append(path)
        return "read"

    approval = PydanticAIApproval(READS, saver=MemorySaver())
    model = make_scripted_model(make_scene("read", path=path))
    agent = Agent(model, tools=[read], capabilities=[*beside, approval])
    stopped = get_interruption(asyncio.run(approval.run(agent, "go", thread_id="t")))
    assert stopped is not None
    assert ran == []
    assert stopped.tool_feedbacks[0].arguments == {"path": path}
    asyncio.run(approval.resume(agent, "t", stopped.approve_all()))
    assert ran == [runs]


class Order(BaseModel):
    amount: Decimal
    tags: list[str] = []


@pytest.mark.parametrize(
    "sent", [{"amount": 5}, {"amount": 5, "tags": ["a"]}, {"order": {"amount": 5}, "on": "2026-11-16"}]
)
def test_equal_validated_arguments_are_judged_once(sent: dict[str, Any]) -> None:
    judged: list[Any] = []

    def pay(order: Order) -> str:
        """Pay."""
        return "paid"

    def pay_on(order: Order, on: str, times: int = 1) -> str:
        """Pay then."""
        return "paid"

    def much(call: ToolCall, state: Any) -> bool:
        judged.append(call.arguments)
        return bool(call.arguments.get("order", call.arguments)["amount"] > 100)

    hook = HumanInTheLoopHook({"pay*": ToolConfig(when=much)})
    tool = pay_on if "order" in sent else pay
    assert in_pydantic_ai(tool, hook, make_scene(tool.__name__, **sent)) is None
    assert judged == [sent]
