"""What users of one framework saw go wrong: lost cases, unordered calls, unknown arguments."""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai import Agent as PydanticAgent

from placet.errors import HookError, InvalidFeedback
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolCall, ToolConfig
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config
from tests.hook.frameworks.pydantic_ai_harness import make_scripted_model
from tests.hook.opened_cases import OpenedCases

PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann"})
GATED = HumanInTheLoopHook({"pay": True})


class Till:
    def __init__(self) -> None:
        self.did: list[Any] = []
        self.reviews = OpenedCases()

    def pay(self, to: str, cents: int = 100, note: str = "") -> str:
        """Pay someone."""
        self.did.append((to, cents, note))
        return f"paid {to}"

    def langchain_agent(self, **named: Any) -> Any:
        approval = ApprovalMiddleware(GATED, saver=MemorySaver(), reviews=self.reviews)
        model = ScriptedModel(scene=Scene(turns=((PAY,),)))
        return create_agent(model, [tool(self.pay)], middleware=[approval], **named)


@pytest.mark.parametrize("is_async", [False, True])
def test_without_a_checkpointer_no_case_is_opened(is_async: bool) -> None:
    till = Till()
    agent = till.langchain_agent()
    with pytest.raises(HookError, match="no checkpointer"):
        asyncio.run(agent.ainvoke(GO)) if is_async else agent.invoke(GO)
    assert till.reviews.opened == []
    assert till.did == []


def test_the_checkpointer_of_an_outer_graph_is_enough() -> None:
    till = Till()
    graph = StateGraph(MessagesState)
    graph.add_node("clerk", till.langchain_agent())
    graph.add_edge(START, "clerk")
    outer: Any = graph.compile(checkpointer=InMemorySaver())
    stopped = interruption_of(outer.invoke(GO, thread_config("t")))
    assert stopped is not None
    resume(outer, "t", stopped.approve_all())
    assert till.did == [("Ann", 100, "")]


def test_an_outer_graph_without_a_checkpointer_is_refused() -> None:
    till = Till()
    graph = StateGraph(MessagesState)
    graph.add_node("clerk", till.langchain_agent())
    graph.add_edge(START, "clerk")
    outer: Any = graph.compile()
    with pytest.raises(HookError, match="no checkpointer"):
        outer.invoke(GO)
    assert till.reviews.opened == []


@pytest.mark.parametrize(
    "wrong", [{"to": "Ann", "amount": 5}, {"to": "Ann", "Cents": 5}, {"to": "Ann", "state": {}}, {}]
)
def test_an_edit_with_an_argument_that_the_tool_does_not_have_is_refused(wrong: dict[str, Any]) -> None:
    till = Till()
    agent = till.langchain_agent(checkpointer=InMemorySaver())
    stopped = interruption_of(agent.invoke(GO, thread_config("t")))
    assert stopped is not None
    assert stopped.tool_feedbacks[0].schema is not None
    assert stopped.tool_feedbacks[0].schema["additionalProperties"] is False
    with pytest.raises(InvalidFeedback):
        resume(agent, "t", stopped.edit("c1", wrong))
    assert till.did == []
    resume(agent, "t", stopped.edit("c1", {"to": "Ann", "cents": 5}))
    assert till.did == [("Ann", 5, "")]


def test_pydantic_ai_shows_calls_in_the_order_in_which_the_model_made_them() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    calls = tuple(
        ToolCall(id=f"c{number}", name=name, arguments={"to": "Ann"} if name != "look" else {})
        for number, name in enumerate(["send", "look", "pay", "send", "pay"])
    )

    def pay(to: str) -> str:
        """Pay."""
        return to

    def send(to: str) -> str:
        """Send."""
        return to

    hook = HumanInTheLoopHook({"pay": True, "send": ToolConfig(when=lambda call, state: True)})
    approval = PydanticAIApproval(hook, saver=MemorySaver())
    agent = PydanticAgent(
        make_scripted_model(Scene(turns=(calls,))), tools=[pay, send, look], capabilities=[approval]
    )
    outcome = asyncio.run(approval.run(agent, "go", thread_id="t"))
    assert isinstance(outcome, InterruptionMetadata)
    assert [each.id for each in outcome.tool_feedbacks] == ["c0", "c2", "c3", "c4"]
    assert [each.id for each in outcome.tools_automatically_approved] == ["c1"]
