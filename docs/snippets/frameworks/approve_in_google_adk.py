"""A refund of Google ADK's agent that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import asyncio
import os
from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from placet import PlacetClient
from placet.hook import (
    HumanInTheLoopHook,
    InterruptionMetadata,
    ServerReviews,
    SqliteSaver,
    aresume_as_decided,
)
from placet.hook.frameworks.google_adk import ApprovalPlugin


class ScriptedModel(BaseLlm):
    """Stands for the model: asks for a refund, then says that it is done."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [types.Part()])[-1]
        part = types.Part(text="Done.")
        if last.text:
            part = types.Part(function_call=types.FunctionCall(name="refund", args={"order": "17"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


model = ScriptedModel(model="scripted")
refunded: list[str] = []


def refund(order: str) -> str:
    """Pay an order back."""
    refunded.append(order)
    return f"refunded {order}"


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = ApprovalPlugin(hook, saver=SqliteSaver("approvals.db"), reviews=ServerReviews(client))

agent = Agent(name="support", model=model, tools=[refund])
app = App(name="shop", root_agent=agent, plugins=[approval])
runner = Runner(app=app, session_service=SqliteSessionService("sessions.db"))


async def ask() -> InterruptionMetadata | None:
    """Send a message; return the calls that wait."""
    await runner.session_service.create_session(app_name="shop", user_id="kim", session_id="17")
    message = types.Content(role="user", parts=[types.Part(text="Pay order 17 back.")])
    async for event in runner.run_async(user_id="kim", session_id="17", new_message=message):
        print(event.author, event.content)
    session = await runner.session_service.get_session(app_name="shop", user_id="kim", session_id="17")
    stopped = None if session is None else await approval.waiting(session)
    if stopped is not None and stopped.case is not None:
        print("Please decide:", stopped.case["review_url"])
    return stopped


async def take_up(feedback: InterruptionMetadata | None = None) -> None:
    """Continue the session if its calls are decided, in any process."""
    async for event in approval.resume(runner, user_id="kim", session_id="17", feedback=feedback):
        print(event.author, event.content)


async def follow() -> None:
    """Continue every session as soon as its calls are decided, until none waits."""
    async for session, outcome in aresume_as_decided(approval.threads_of(runner)):
        print(session, outcome)


stopped = asyncio.run(ask())
assert stopped is not None
assert refunded == []
asyncio.run(take_up())  # nobody has decided on the page yet
assert refunded == []
asyncio.run(take_up(stopped.edit_tool("refund", {"order": "18"})))
assert refunded == ["18"]
client.close()
