"""A refund of an Agent Framework agent that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver, aresume_as_decided
from placet.hook.frameworks.agent_framework import AgentFrameworkApproval


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Stands for the model: asks for a refund, then says that it is done."""

    async def _inner_get_response(self, *, messages: Any, **named: Any) -> ChatResponse:
        content = Content.from_text("Done.")
        if messages[-1].role == "user":
            content = Content.from_function_call(call_id="c1", name="refund", arguments='{"order": "17"}')
        return ChatResponse(messages=[Message(role="assistant", contents=[content])])


refunded: list[str] = []


@tool(approval_mode="never_require")
def refund(order: str) -> str:
    """Pay an order back."""
    refunded.append(order)
    return f"refunded {order}"


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = AgentFrameworkApproval(hook, saver=SqliteSaver("approvals.db"), reviews=ServerReviews(client))
agent = Agent(client=ScriptedClient(), name="support", tools=[refund], middleware=approval.middleware)


def save(session: AgentSession) -> None:
    """Store the session, wherever you keep sessions."""
    Path(f"{session.session_id}.json").write_text(json.dumps(session.to_dict()))


def load(session_id: str) -> AgentSession:
    """Return the stored session."""
    return AgentSession.from_dict(json.loads(Path(f"{session_id}.json").read_text()))


async def ask() -> Any:
    """Send a message; return the calls that wait."""
    session = AgentSession(session_id="order-17")
    await agent.run("Pay order 17 back.", session=session)
    save(session)
    stopped = approval.waiting(session)
    if stopped is not None and stopped.case is not None:
        print("Please decide:", stopped.case["review_url"])
    return stopped


async def take_up(feedback: Any = None) -> None:
    """Continue the session if its calls are decided, in any process."""
    session = load("order-17")
    response = await approval.resume(agent, session, feedback)
    save(session)
    print("still waiting" if response is None else response.text)


async def follow() -> None:
    """Continue every session as soon as its calls are decided, until none waits."""
    async for session_id, outcome in aresume_as_decided(approval.threads_of(agent, load, save)):
        print(session_id, outcome)


stopped = asyncio.run(ask())
asyncio.run(take_up())  # nobody has decided on the page yet
assert refunded == []
asyncio.run(take_up(stopped.edit_tool("refund", {"order": "18"})))
assert refunded == ["18"]
client.close()
