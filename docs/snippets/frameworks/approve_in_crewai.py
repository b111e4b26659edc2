"""A refund of a crew that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import os
import threading
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver
from placet.hook.frameworks.crewai import CrewAIApproval

REFUND = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order": "17"}'}}


class ScriptedModel(BaseLLM):
    """Stands for the model: asks for a refund, then says that it is done."""

    def call(self, messages: Any, *args: Any, **named: Any) -> Any:
        return "Done." if messages[-1]["role"] == "tool" else [REFUND]

    def supports_function_calling(self) -> bool:
        return True


refunded: list[str] = []


@tool
def refund(order: str) -> str:
    """Pay an order back."""
    refunded.append(order)
    return f"refunded {order}"


model = ScriptedModel(model="scripted")
agent = Agent(role="support", goal="Help customers", backstory="-", llm=model, tools=[refund])
task = Task(description="Pay order 17 back.", expected_output="What was done.", agent=agent)
crew = Crew(agents=[agent], tasks=[task])

client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"refund": "Refunds need approval"})
approval = CrewAIApproval(
    hook, saver=SqliteSaver("approvals.db"), run_id="order 17", reviews=ServerReviews(client)
)


def decide() -> None:
    """Decide from another thread; on the page, a person does this."""
    while not (stopped := approval.waiting()):
        threading.Event().wait(0.1)
    print("Please decide:", (stopped[0].case or {}).get("review_url"))
    assert refunded == []
    approval.answer(stopped[0].edit_tool("refund", {"order": "18"}))


decider = threading.Thread(target=decide)
decider.start()
with approval.guard(crew):
    print(crew.kickoff())
decider.join()
assert refunded == ["18"]
client.close()
