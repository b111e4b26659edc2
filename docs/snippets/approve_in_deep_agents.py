from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from placet.hook import HumanInTheLoopHook, SqliteSaver
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume


class ScriptedModel(FakeMessagesListChatModel):
    """Says what it was told to say."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


WORK = {"description": "Warn Bern", "subagent_type": "general-purpose"}
WARN = {"city": "Bern", "text": "Storm at noon"}
model = ScriptedModel(
    responses=[
        AIMessage("", tool_calls=[{"id": "call_1", "name": "task", "args": WORK}]),
        AIMessage("", tool_calls=[{"id": "call_2", "name": "send_warning", "args": WARN}]),
        AIMessage("Bern is warned."),
        AIMessage("Everybody is warned."),
    ]
)
sent: list[str] = []
question: Any = {"messages": [{"role": "user", "content": "Warn Bern, if there is a storm"}]}


def send_warning(city: str, text: str) -> str:
    """Send a text message to everybody in a city."""
    sent.append(text)
    return f"Sent to everybody in {city}"


saver = SqliteSaver("approvals.db")


def build_approval() -> ApprovalMiddleware:
    hook = HumanInTheLoopHook({"send_warning": "Wakes up a whole city", "write_file": True})
    return ApprovalMiddleware(hook, saver=saver)


agent = create_deep_agent(
    model,
    tools=[send_warning],
    middleware=[build_approval()],
    subagents=[
        {
            "name": "general-purpose",
            "description": "Works on a task of several steps",
            "middleware": [build_approval()],
        }
    ],
    checkpointer=InMemorySaver(),
)

# What follows is for the tests.
waiting = interruption_of(agent.invoke(question, {"configurable": {"thread_id": "storm"}}))
assert waiting is not None
assert [(call.name, call.path) for call in waiting.undecided] == [("send_warning", ("tools",))]
assert sent == []
result = resume(agent, "storm", waiting.approve_all())
assert result["messages"][-1].text == "Everybody is warned."
assert sent == ["Storm at noon"]
