"""The events an agent reports while it runs, and its outcomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placet.hook.checkpoint import Message
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import ToolCall

if TYPE_CHECKING:
    from placet.hook.tools import Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """A piece of the model's reply, from a model that streams."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReplied:
    """The model's whole reply."""

    message: Message


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswered:
    """The result of one call as the model will read it."""

    call: ToolCall
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentResult:
    """The agent has finished: its final reply and the whole thread."""

    thread_id: str
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """The model's final reply."""
        return str(self.messages[-1].get("content", "")) if self.messages else ""


AgentOutcome = AgentResult | InterruptionMetadata
AgentEvent = TextDelta | ModelReplied | ToolAnswered | AgentOutcome
Model = Callable[..., Any]
"""(messages, tools) -> the next assistant message, or its pieces and then the message; sync or async."""


@dataclass(frozen=True, kw_only=True)
class ToolJob:
    """One call that is to run now."""

    call: ToolCall
    tool: "Tool"
    key: str
    """The idempotency key: the same for every attempt of this call."""
    thread_id: str
    """The thread of the inner agent that runs the call."""
    decisions: dict[str, Any]
    """The decisions on the calls of the inner agent."""
    case: Mapping[str, Any] | None
    """The case that these decisions come from."""
    begins: bool
    """Whether this is certainly the first attempt: an inner thread with this id belongs to another call."""
