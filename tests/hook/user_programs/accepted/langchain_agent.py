"""A program with LangChain that type checkers accept, and in which LangChain's types stay."""

from dataclasses import dataclass
from typing import Any, assert_type

from langchain.agents import create_agent
from langchain.agents.middleware.types import OutputAgentState
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import GraphOutput
from pydantic import BaseModel

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver
from placet.hook.frameworks.langchain import ApprovalMiddleware, aresume, interruption_of, resume


class Answer(BaseModel):
    text: str


@dataclass
class Session:
    user: str


hook = HumanInTheLoopHook({"send_mail": True})
approval = ApprovalMiddleware[Session](hook, saver=MemorySaver(), agent="clerk", parallel=["look"])
agent = create_agent(
    "model",
    [],
    middleware=[approval],
    context_schema=Session,
    response_format=Answer,
    checkpointer=InMemorySaver(),
)
result = agent.invoke({"messages": []}, {"configurable": {"thread_id": "t"}}, context=Session("ann"))
assert_type(interruption_of(result), InterruptionMetadata | None)
assert_type(resume(agent, "t", {"a": "approve"}, context=Session("ann")), dict[str, Any])
ended = resume(agent, "t", None, version="v2", config={"recursion_limit": 9})
assert_type(ended, GraphOutput[OutputAgentState[Answer]])
answer: Answer | None = ended.value.get("structured_response")

without_context = ApprovalMiddleware(hook, saver=MemorySaver())
create_agent("model", [], middleware=[without_context], checkpointer=InMemorySaver())
create_agent("model", [], middleware=[ApprovalMiddleware(hook, saver=MemorySaver())], context_schema=Session)


async def main(waiting: InterruptionMetadata) -> None:
    later = await aresume(agent, "t", waiting.approve_all(), version="v2")
    assert_type(later, GraphOutput[OutputAgentState[Answer]])
