"""A refund of an agent of smolagents that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import os
import threading
from typing import Any

from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver
from placet.hook.frameworks.smolagents import SmolagentsApproval


class ScriptedModel(Model):
    """Stands for the model: asks for a refund, then ends."""

    def generate(self, messages: Any, *args: Any, **named: Any) -> ChatMessage:
        asks = not any(message.role == MessageRole.TOOL_RESPONSE for message in messages)
        name, arguments = ("refund", {"order": "17"}) if asks else ("final_answer", {"answer": "Done."})
        call = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content=None,
            tool_calls=[ChatMessageToolCall(id="c1", type="function", function=call)],
        )


refunded: list[str] = []


@tool
def refund(order: str) -> str:
    """Pay an order back.

    Args:
        order: The number of the order.
    """
    refunded.append(order)
    return f"refunded {order}"


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = SmolagentsApproval(
    hook, saver=SqliteSaver("approvals.db"), run_id="order 17", reviews=ServerReviews(client)
)
agent = ToolCallingAgent(tools=[refund], model=ScriptedModel())
approval.gate(agent)


def decide() -> None:
    """Decide from another thread; on the page, a person does this."""
    while not (stopped := approval.waiting()):
        threading.Event().wait(0.1)
    print("Please decide:", (stopped[0].case or {}).get("review_url"))
    assert refunded == []
    approval.answer(stopped[0].edit_tool("refund", {"order": "18"}))


decider = threading.Thread(target=decide)
decider.start()
print(agent.run("Pay order 17 back."))
decider.join()
assert refunded == ["18"]
client.close()
