"""A model that says what it was told to say, and tools that remember how they were called."""

from collections.abc import Callable
from typing import Any

from placet.hook import AgentResult, InterruptionMetadata


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


class Scripted:
    """Replies in order: a text, or a list of calls; every conversation it saw is kept."""

    def __init__(self, *replies: str | list[dict[str, Any]]) -> None:
        self.replies = list(replies)
        self.saw: list[list[dict[str, Any]]] = []

    def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        self.saw.append(messages)
        said = sum(message["role"] == "assistant" for message in messages)
        reply = self.replies[said]
        return {"content": reply} if isinstance(reply, str) else {"content": "", "tool_calls": reply}

    def results(self) -> list[str]:
        """What the model last read as answers of tools."""
        return [message["content"] for message in self.saw[-1] if message["role"] == "tool"]


class Office:
    """Three tools; `ran` lists what they did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [self.write_file, self.execute_sql, self.read_data]

    def write_file(self, path: str, text: str = "") -> str:
        """Write a file."""
        self.ran.append(("write_file", path, text))
        return f"wrote {path}"

    def execute_sql(self, query: str) -> str:
        """Run SQL."""
        self.ran.append(("execute_sql", query))
        return f"ran {query}"

    def read_data(self) -> dict[str, int]:
        """Read."""
        self.ran.append(("read_data",))
        return {"rows": 3}


def expect_interruption(outcome: object) -> InterruptionMetadata:
    assert isinstance(outcome, InterruptionMetadata), outcome
    return outcome


def expect_result(outcome: object) -> AgentResult:
    assert isinstance(outcome, AgentResult), outcome
    return outcome


class Person:
    """Decides what it is asked, and remembers what it was shown."""

    def __init__(self, *decisions: dict[str, Any]) -> None:
        self.decisions = list(decisions)
        self.saw: list[InterruptionMetadata] = []

    def __call__(self, waiting: InterruptionMetadata) -> dict[str, Any]:
        self.saw.append(waiting)
        return {"call": self.decisions.pop(0)}
