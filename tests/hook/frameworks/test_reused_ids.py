"""Models that name a later call as an earlier one: an answer that comes twice decides only one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, ValidationError
from pydantic_ai import Agent

from placet.errors import InvalidFeedback
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall
from placet.hook.feedback import CallDecision
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import LAST_WORDS, Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model

HOOK = HumanInTheLoopHook({"pay": True})
PAYEES = ["Ann", "Eve"]
SCENE = Scene(turns=tuple((ToolCall(id="c1", name="pay", arguments={"to": name}),) for name in PAYEES))
YES: dict[str, CallDecision] = {"c1": "approve"}


class Till:
    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid.append(to)
        return f"paid {to}"

    def langchain(self, scene: Scene = SCENE, **named: Any) -> Any:
        approval = ApprovalMiddleware(HOOK, saver=MemorySaver())
        model, kept = ScriptedModel(scene=scene), InMemorySaver()
        tools = [langchain_tool(self.pay)]
        return create_agent(model, tools, middleware=[approval], checkpointer=kept, **named)


def test_a_langchain_answer_that_comes_twice_pays_nobody_else() -> None:
    till = Till()
    agent = till.langchain()
    agent.invoke(GO, thread_config("t"))
    second = interruption_of(resume(agent, "t", YES))
    with pytest.raises(InvalidFeedback, match="no call with this id"):
        resume(agent, "t", YES)
    assert till.paid == ["Ann"]
    assert second is not None
    resume(agent, "t", second.approve_all())
    assert till.paid == PAYEES


def test_a_langgraph_command_that_comes_twice_pays_nobody_else() -> None:
    till = Till()
    agent = till.langchain()
    agent.invoke(GO, thread_config("t"))
    agent.invoke(Command(resume={"decisions": YES}), thread_config("t"))
    with pytest.raises(ValidationError, match="no call with this id"):
        agent.invoke(Command(resume={"decisions": YES}), thread_config("t"))
    assert till.paid == ["Ann"]


class Receipt(BaseModel):
    """What was paid."""

    total: int


def test_a_structured_answer_that_bears_an_old_id_is_still_an_answer() -> None:
    answer = ToolCall(id="c1", name="Receipt", arguments={"total": 3})
    scene = Scene(turns=(SCENE.turns[0], (answer,)))
    agent = Till().langchain(scene, response_format=ToolStrategy(Receipt))
    agent.invoke(GO, thread_config("t"))
    result = resume(agent, "t", YES)
    assert result["structured_response"] == Receipt(total=3)
    asked = [
        call["id"] for each in result["messages"] if isinstance(each, AIMessage) for call in each.tool_calls
    ]
    told = [each.tool_call_id for each in result["messages"] if isinstance(each, ToolMessage)]
    assert asked == told
    assert len(set(asked)) == 2


@pytest.mark.parametrize("streams", [False, True])
def test_a_pydantic_ai_answer_that_comes_twice_pays_nobody_else(streams: bool) -> None:
    till = Till()
    approval = PydanticAIApproval(HOOK, saver=MemorySaver())
    agent = Agent(make_scripted_model(SCENE), tools=[till.pay], capabilities=[approval])

    async def last(events: AsyncIterator[Any]) -> Any:
        return [event async for event in events][-1]

    async def answered(feedback: Any) -> Any:
        if streams:
            return await last(approval.resume_stream(agent, "t", feedback))
        return await approval.resume(agent, "t", feedback)

    async def played() -> Any:
        await approval.run(agent, "go", thread_id="t")
        second = await answered(YES)
        again = await answered(YES)
        assert till.paid == ["Ann"]
        assert isinstance(second, InterruptionMetadata)
        assert second.id == again.id
        return await answered(second.approve_all())

    assert asyncio.run(played()).output == LAST_WORDS
    assert till.paid == PAYEES


def test_calls_that_a_model_names_alike_in_one_reply_are_decided_one_by_one() -> None:
    till = Till()
    approval = PydanticAIApproval(HOOK, saver=MemorySaver())
    turn = tuple(call for (call,) in SCENE.turns)
    agent = Agent(make_scripted_model(Scene(turns=(turn,))), tools=[till.pay], capabilities=[approval])

    async def played() -> None:
        waiting = await approval.run(agent, "go", thread_id="t")
        assert isinstance(waiting, InterruptionMetadata)
        assert len({each.id for each in waiting.undecided}) == 2
        eve = waiting.tool_feedbacks[1]
        await approval.resume(agent, "t", [waiting.tool_feedbacks[0].reject(), eve.approve()])

    asyncio.run(played())
    assert till.paid == ["Eve"]
