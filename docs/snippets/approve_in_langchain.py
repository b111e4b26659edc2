import os
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, SqliteSaver
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume
from placet.hook.reviews import ServerReviews


class ScriptedModel(FakeMessagesListChatModel):
    """Says what it was told to say."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def asks_for(*calls: Any) -> ScriptedModel:
    """Asks for these calls, and then is done."""
    return ScriptedModel(responses=[AIMessage("", tool_calls=list(calls)), AIMessage("Everybody is warned.")])


WARN = {"id": "call_1", "name": "send_warning", "args": {"city": "Bern", "text": "Storm at noon"}}
LOOK = {"id": "call_2", "name": "get_weather", "args": {"city": "Bern"}}
model = asks_for(WARN, LOOK)
sent: list[str] = []
question: Any = {"messages": [{"role": "user", "content": "Warn Bern, if there is a storm"}]}


def get_weather(city: str) -> str:
    """What the weather is like in a city."""
    return f"Stormy in {city}"


def send_warning(city: str, text: str) -> str:
    """Send a text message to everybody in a city."""
    sent.append(text)
    return f"Sent to everybody in {city}"


agent = create_agent(model, tools=[get_weather, send_warning])

hook = HumanInTheLoopHook({"send_warning": "Wakes up a whole city"})
approval = ApprovalMiddleware(hook, saver=SqliteSaver("approvals.db"))
agent = create_agent(
    model, tools=[get_weather, send_warning], middleware=[approval], checkpointer=InMemorySaver()
)

result = agent.invoke(question, {"configurable": {"thread_id": "storm"}})
waiting = interruption_of(result)
assert waiting is not None
for call in waiting.undecided:
    print(call.id, call.name, call.arguments, call.description)

answer = waiting.edit_tool("send_warning", {"city": "Bern", "text": "Stay inside"})
result = resume(agent, "storm", answer)

# What follows is for the tests, but for the pieces that the page shows.
assert [call.id for call in waiting.undecided] == ["call_1"]
assert sent == ["Stay inside"]
assert result["messages"][-1].text == "Everybody is warned."
assert resume(agent, "storm", answer)["messages"] == result["messages"]
assert sent == ["Stay inside"]

config: Any = {"configurable": {"thread_id": "command"}}
agent = create_agent(
    asks_for(WARN), tools=[send_warning], middleware=[approval], checkpointer=InMemorySaver()
)
agent.invoke(question, config)

decisions = {"call_1": {"decision": "reject", "reason": "The storm is over"}}
result = agent.invoke(Command(resume={"decisions": decisions}), config)

assert "The storm is over" in result["messages"][-2].text

config = {"configurable": {"thread_id": "list"}}
agent = create_agent(
    asks_for(WARN), tools=[send_warning], middleware=[approval], checkpointer=InMemorySaver()
)
agent.invoke(question, config)

edited = {"name": "send_warning", "args": {"city": "Bern", "text": "Stay in"}}
decided = [{"type": "edit", "edited_action": edited}]
result = agent.invoke(Command(resume={"decisions": decided}), config)

assert sent.pop() == "Stay in"
config = {"configurable": {"thread_id": "case"}}
model = asks_for(WARN)

server = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
approval = ApprovalMiddleware(
    hook, saver=SqliteSaver("approvals.db"), agent="weather", reviews=ServerReviews(server)
)
agent = create_agent(model, tools=[send_warning], middleware=[approval], checkpointer=InMemorySaver())
result = agent.invoke(question, config)
waiting = interruption_of(result)
if waiting is not None and waiting.case is not None:
    print(waiting.case["review_url"])

assert interruption_of(resume(agent, "case", None)) is not None, "nobody has decided yet"
assert waiting is not None
assert waiting.case is not None
server.cancel(waiting.case["case_id"], reason="The storm has passed")

result = resume(agent, "case", None)

assert interruption_of(result) is None
assert "The storm has passed" in result["messages"][-2].text
assert sent == ["Stay inside"]
server.close()
