"""What an agent reports while it runs, and what it ends with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placet.hook.checkpoint import Message
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import ToolCall

if TYPE_CHECKING:
    from placet.hook.tools import Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """A piece of the model's reply, from a model that sends it in pieces."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReplied:
    """The model's whole reply."""

    message: Message


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswered:
    """What the model will read about one call."""

    call: ToolCall
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentResult:
    """The agent has finished: its last words, and the whole thread."""

    thread_id: str
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """What the model said last."""
        return str(self.messages[-1].get("content", "")) if self.messages else ""


Outcome = AgentResult | InterruptionMetadata
Event = TextDelta | ModelReplied | ToolAnswered | Outcome
Model = Callable[..., Any]
"""(messages, tools) -> the next assistant message, or its pieces and then the message; async or not."""


@dataclass(frozen=True, kw_only=True)
class ToolJob:
    """One call that is to run now."""

    call: ToolCall
    tool: "Tool"
    key: str
    """The same for every attempt of this call."""
    thread_id: str
    """Where an agent inside keeps its own thread."""
    decisions: dict[str, Any]
    """What was decided about the calls of an agent inside."""
    begins: bool
    """Whether it is surely the first attempt: what an agent inside left under this name is another's."""
