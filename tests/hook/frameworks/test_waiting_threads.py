"""Threads of frameworks continue as soon as their case is decided, like those of a ReactAgent."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, aresume_as_decided
from placet.hook.case_outcome import CaseOutcome
from placet.hook.frameworks.langchain import ApprovalMiddleware
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.thread_resumption import AgentThreads, resume_as_decided, resume_pending
from placet.hook.tool_call import ToolCall
from placet.testing.approvals import Scene
from tests.hook.frameworks.langchain_harness import GO, ScriptedModel, thread_config

WAIT_S = 10.0
PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann"})
GATED = HumanInTheLoopHook({"*": True})


class Board:
    """One case, which the test decides; who waits for it is woken."""

    def __init__(self) -> None:
        self.decided = threading.Event()
        self.followed = threading.Event()
        self.reported: list[tuple[str, str]] = []

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        self.calls = [each.id for each in interruption.undecided]
        return {"case_id": interruption.id}

    def poll_case(self, case: Mapping[str, Any]) -> CaseOutcome | None:
        approved = dict.fromkeys(self.calls, "approve")
        return CaseOutcome(status="decided", decisions=approved) if self.decided.is_set() else None

    def withdraw(self, case: Mapping[str, Any], reason: str) -> None:
        raise AssertionError("the decision is made in the case")

    def wait_for_case(self, case: Mapping[str, Any], at_most: float) -> None:
        self.followed.set()
        self.decided.wait(at_most)

    def report_calls(self, case: Mapping[str, Any], receipts: Sequence[Mapping[str, str]]) -> None:
        self.reported += [(receipt["call_id"], receipt["outcome"]) for receipt in receipts]


class Till:
    def __init__(self) -> None:
        self.paid: list[str] = []
        self.board = Board()

    def pay(self, to: str) -> str:
        """Pay someone."""
        self.paid.append(to)
        return f"paid {to}"

    def langchain(self) -> AgentThreads:
        approval = ApprovalMiddleware(GATED, saver=MemorySaver(), reviews=self.board)
        agent: Any = create_agent(
            ScriptedModel(scene=Scene(turns=((PAY,),))),
            [self.pay],
            middleware=[approval],
            checkpointer=InMemorySaver(),
        )
        agent.invoke(GO, thread_config("a/b"))
        return approval.threads_of(agent)

    def pydantic_ai(self) -> AgentThreads:
        def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart("pay", {"to": "Ann"}, "c1")])

        approval = PydanticAIApproval(GATED, saver=MemorySaver(), reviews=self.board)
        agent = Agent(FunctionModel(say), tools=[self.pay], capabilities=[approval])
        asyncio.run(approval.run(agent, "go", thread_id="a/b"))
        return approval.threads_of(agent)


FRAMEWORKS = ("langchain", "pydantic_ai")


def test_a_thread_continues_when_its_case_is_decided() -> None:
    till = Till()
    threads = till.langchain()
    assert resume_pending(threads) == {}
    moved: list[str] = []

    def follow() -> None:
        moved.extend([thread_id for thread_id, _ in resume_as_decided(threads, timeout=WAIT_S)])

    following = threading.Thread(target=follow, daemon=True)
    following.start()
    assert till.board.followed.wait(WAIT_S)
    assert till.paid == []
    till.board.decided.set()
    following.join(WAIT_S)
    assert moved == ["a/b"]
    assert till.paid == ["Ann"]
    assert threads.outbox.wait_until_sent(WAIT_S)
    assert till.board.reported == [("c1", "ran")]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_thread_continues_on_an_event_loop(framework: str) -> None:
    till = Till()
    threads = getattr(till, framework)()
    till.board.decided.set()

    async def follow() -> list[str]:
        return [thread_id async for thread_id, _ in aresume_as_decided(threads, timeout=WAIT_S)]

    assert asyncio.run(follow()) == ["a/b"]
    assert till.paid == ["Ann"]
