"""A refund of a Strands agent that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import json
import os
from collections.abc import AsyncIterable
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver, resume_as_decided
from placet.hook.frameworks.strands import StrandsApproval


class ScriptedModel(Model):
    """Stands for the model: asks for a refund, then says that it is done."""

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> Any: ...

    def structured_output(self, *args: Any, **named: Any) -> Any: ...

    async def stream(self, messages: Any, *args: Any, **named: Any) -> AsyncIterable[Any]:
        asks = "text" in messages[-1]["content"][0]
        start = {"toolUse": {"name": "refund", "toolUseId": "c1"}} if asks else {}
        delta = {"toolUse": {"input": json.dumps({"order": "17"})}} if asks else {"text": "Done."}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if asks else "end_turn"}}


model = ScriptedModel()
refunded: list[str] = []


@tool
def refund(order: str) -> str:
    """Pay an order back."""
    refunded.append(order)
    return f"refunded {order}"


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = StrandsApproval(hook, saver=SqliteSaver("approvals.db"), reviews=ServerReviews(client))


def build_agent(session_id: str) -> Agent:
    """Return the agent of a session, in any process."""
    sessions = FileSessionManager(session_id=session_id, storage_dir="sessions")
    return Agent(
        agent_id="support", model=model, tools=[refund], session_manager=sessions, plugins=[approval]
    )


def follow() -> None:
    """Continue every session as soon as its calls are decided, until none waits."""
    for session_id, result in resume_as_decided(approval.threads_of(build_agent)):
        print(session_id, result)


agent = build_agent("order-17")
outcome = agent("Pay order 17 back.")
stopped = approval.waiting(agent)
assert outcome.stop_reason == "interrupt"
assert stopped is not None
assert stopped.case is not None
print("Please decide:", stopped.case["review_url"])

agent = build_agent("order-17")
assert approval.resume(agent) is None  # nobody has decided on the page yet
assert refunded == []
done = approval.resume(agent, stopped.edit_tool("refund", {"order": "18"}))
assert refunded == ["18"]
print(done)
client.close()
