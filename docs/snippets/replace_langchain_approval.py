import os
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet import PlacetClient
from placet.hook import SqliteSaver
from placet.hook.frameworks.langchain import HumanInTheLoopMiddleware, resume
from placet.hook.reviews import ServerReviews

sent: list[str] = []
question: Any = {"messages": [{"role": "user", "content": "Warn Bern"}]}


class ScriptedModel(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def asks_once() -> ScriptedModel:
    call: Any = {"id": "call_1", "name": "send_warning", "args": {"city": "Bern"}}
    return ScriptedModel(responses=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])


def send_warning(city: str) -> str:
    """Send a text message to everybody in a city."""
    sent.append(city)
    return f"Sent to everybody in {city}"


model = asks_once()

agent = create_agent(
    model,
    tools=[send_warning],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"send_warning": {"allowed_decisions": ["approve", "edit", "reject"]}},
            saver=SqliteSaver("approvals.db"),
        )
    ],
    checkpointer=InMemorySaver(),
)

config: Any = {"configurable": {"thread_id": "storm"}}
result = agent.invoke(question, config)
print(result["__interrupt__"][0].value["action_requests"])
result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)

assert sent == ["Bern"]
model = asks_once()

server = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
approval = HumanInTheLoopMiddleware(
    interrupt_on={"send_warning": True},
    saver=SqliteSaver("approvals.db"),
    agent="weather",
    reviews=ServerReviews(server),
)
agent = create_agent(model, tools=[send_warning], middleware=[approval], checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "inbox"}}
result = agent.invoke(question, config)
print(result["__interrupt__"][0].value["case"]["review_url"])

server.cancel(result["__interrupt__"][0].value["case"]["case_id"], reason="The storm has passed")

result = resume(agent, "inbox", None)

assert "The storm has passed" in result["messages"][-2].text
assert sent == ["Bern"]
server.close()
