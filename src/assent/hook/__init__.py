"""Tool approval: stops an agent's calls until a person has decided them. Names load when first used."""

from importlib import import_module
from typing import TYPE_CHECKING

_EXPORTS: dict[str, str] = {
    "AgentResult": "assent.hook.events",
    "EmbeddedGrants": "assent.hook.grants",
    "FeedbackResult": "assent.hook.feedback",
    "FileSaver": "assent.hook.savers.file",
    "GrantBook": "assent.hook.grants",
    "HumanInTheLoopHook": "assent.hook.policy",
    "InterruptionMetadata": "assent.hook.interruption",
    "LangGraphSaver": "assent.hook.savers.langgraph",
    "MemoryGrants": "assent.hook.grants",
    "MemorySaver": "assent.hook.savers.memory",
    "PostgresSaver": "assent.hook.savers.postgres",
    "ReactAgent": "assent.hook.agent",
    "RedisSaver": "assent.hook.savers.redis",
    "Retention": "assent.hook.savers.saver",
    "Saver": "assent.hook.savers.saver",
    "ServerGrants": "assent.hook.grants",
    "SqliteSaver": "assent.hook.savers.sqlite",
    "Tool": "assent.hook.tools",
    "ToolCall": "assent.hook.calls",
    "ToolConfig": "assent.hook.policy",
    "ToolFeedback": "assent.hook.feedback",
    "requires_approval": "assent.hook.decorator",
    "resume_pending": "assent.hook.pickup",
    "aresume_pending": "assent.hook.pickup",
    "EmbeddedReviews": "assent.hook.reviews",
    "ServerReviews": "assent.hook.reviews",
    "tool": "assent.hook.tools",
}
"""Public name -> the module that defines it."""

__all__ = sorted(_EXPORTS)  # noqa: PLE0605 - the table holds strings only

if TYPE_CHECKING:
    from assent.hook.agent import ReactAgent as ReactAgent
    from assent.hook.calls import ToolCall as ToolCall
    from assent.hook.decorator import requires_approval as requires_approval
    from assent.hook.events import AgentResult as AgentResult
    from assent.hook.feedback import FeedbackResult as FeedbackResult
    from assent.hook.feedback import ToolFeedback as ToolFeedback
    from assent.hook.grants import EmbeddedGrants as EmbeddedGrants
    from assent.hook.grants import GrantBook as GrantBook
    from assent.hook.grants import MemoryGrants as MemoryGrants
    from assent.hook.grants import ServerGrants as ServerGrants
    from assent.hook.interruption import InterruptionMetadata as InterruptionMetadata
    from assent.hook.pickup import aresume_pending as aresume_pending
    from assent.hook.pickup import resume_pending as resume_pending
    from assent.hook.policy import HumanInTheLoopHook as HumanInTheLoopHook
    from assent.hook.policy import ToolConfig as ToolConfig
    from assent.hook.reviews import EmbeddedReviews as EmbeddedReviews
    from assent.hook.reviews import ServerReviews as ServerReviews
    from assent.hook.savers.file import FileSaver as FileSaver
    from assent.hook.savers.langgraph import LangGraphSaver as LangGraphSaver
    from assent.hook.savers.memory import MemorySaver as MemorySaver
    from assent.hook.savers.postgres import PostgresSaver as PostgresSaver
    from assent.hook.savers.redis import RedisSaver as RedisSaver
    from assent.hook.savers.saver import Retention as Retention
    from assent.hook.savers.saver import Saver as Saver
    from assent.hook.savers.sqlite import SqliteSaver as SqliteSaver
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
