"""Tool approval: stops an agent's calls until a person has decided them. Names load when first used."""

from importlib import import_module
from typing import TYPE_CHECKING

_EXPORTS: dict[str, str] = {
    "AgentResult": "assent.hook.events",
    "FeedbackResult": "assent.hook.feedback",
    "HumanInTheLoopHook": "assent.hook.policy",
    "InterruptionMetadata": "assent.hook.interruption",
    "MemorySaver": "assent.hook.savers.memory",
    "ReactAgent": "assent.hook.agent",
    "Tool": "assent.hook.tools",
    "ToolCall": "assent.hook.calls",
    "ToolConfig": "assent.hook.policy",
    "ToolFeedback": "assent.hook.feedback",
    "tool": "assent.hook.tools",
}
"""Public name -> the module that defines it."""

__all__ = sorted(_EXPORTS)  # noqa: PLE0605 - the table holds strings only

if TYPE_CHECKING:
    from assent.hook.agent import ReactAgent as ReactAgent
    from assent.hook.calls import ToolCall as ToolCall
    from assent.hook.events import AgentResult as AgentResult
    from assent.hook.feedback import FeedbackResult as FeedbackResult
    from assent.hook.feedback import ToolFeedback as ToolFeedback
    from assent.hook.interruption import InterruptionMetadata as InterruptionMetadata
    from assent.hook.policy import HumanInTheLoopHook as HumanInTheLoopHook
    from assent.hook.policy import ToolConfig as ToolConfig
    from assent.hook.savers.memory import MemorySaver as MemorySaver
    from assent.hook.tools import Tool as Tool
    from assent.hook.tools import tool as tool
else:

    def __getattr__(name: str) -> object:
        """Load a public name on first use: a gate costs nobody a database or a framework."""
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
