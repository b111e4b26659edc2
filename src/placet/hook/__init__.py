"""Tool approval: stops an agent's tool calls until a reviewer has decided them. Names load on first use."""

from importlib import import_module
from typing import TYPE_CHECKING

_EXPORTS: dict[str, str] = {
    "AgentResult": "placet.hook.events",
    "EmbeddedGrants": "placet.hook.grants",
    "FeedbackResult": "placet.hook.feedback",
    "FileSaver": "placet.hook.savers.file",
    "GrantSource": "placet.hook.grants",
    "HumanInTheLoopHook": "placet.hook.policy",
    "InterruptionMetadata": "placet.hook.interruption",
    "LangGraphSaver": "placet.hook.savers.langgraph",
    "MemoryGrants": "placet.hook.grants",
    "MemorySaver": "placet.hook.savers.memory",
    "PostgresSaver": "placet.hook.savers.postgres",
    "ReactAgent": "placet.hook.agent",
    "RedisSaver": "placet.hook.savers.redis",
    "CheckpointRetention": "placet.hook.savers.saver",
    "Saver": "placet.hook.savers.saver",
    "ServerGrants": "placet.hook.grants",
    "SqliteSaver": "placet.hook.savers.sqlite",
    "Tool": "placet.hook.tools",
    "ToolCall": "placet.hook.tool_call",
    "ToolConfig": "placet.hook.policy",
    "ToolFeedback": "placet.hook.feedback",
    "requires_approval": "placet.hook.decorator",
    "resume_pending": "placet.hook.pending",
    "aresume_pending": "placet.hook.pending",
    "EmbeddedReviews": "placet.hook.reviews",
    "ServerReviews": "placet.hook.reviews",
    "tool": "placet.hook.tools",
}
"""Public name -> the module that defines it."""

__all__ = sorted(_EXPORTS)  # noqa: PLE0605 - the table holds strings only

if TYPE_CHECKING:
    from placet.hook.agent import ReactAgent as ReactAgent
    from placet.hook.decorator import requires_approval as requires_approval
    from placet.hook.events import AgentResult as AgentResult
    from placet.hook.feedback import FeedbackResult as FeedbackResult
    from placet.hook.feedback import ToolFeedback as ToolFeedback
    from placet.hook.grants import EmbeddedGrants as EmbeddedGrants
    from placet.hook.grants import GrantSource as GrantSource
    from placet.hook.grants import MemoryGrants as MemoryGrants
    from placet.hook.grants import ServerGrants as ServerGrants
    from placet.hook.interruption import InterruptionMetadata as InterruptionMetadata
    from placet.hook.pending import aresume_pending as aresume_pending
    from placet.hook.pending import resume_pending as resume_pending
    from placet.hook.policy import HumanInTheLoopHook as HumanInTheLoopHook
    from placet.hook.policy import ToolConfig as ToolConfig
    from placet.hook.reviews import EmbeddedReviews as EmbeddedReviews
    from placet.hook.reviews import ServerReviews as ServerReviews
    from placet.hook.savers.file import FileSaver as FileSaver
    from placet.hook.savers.langgraph import LangGraphSaver as LangGraphSaver
    from placet.hook.savers.memory import MemorySaver as MemorySaver
    from placet.hook.savers.postgres import PostgresSaver as PostgresSaver
    from placet.hook.savers.redis import RedisSaver as RedisSaver
    from placet.hook.savers.saver import CheckpointRetention as CheckpointRetention
    from placet.hook.savers.saver import Saver as Saver
    from placet.hook.savers.sqlite import SqliteSaver as SqliteSaver
    from placet.hook.tool_call import ToolCall as ToolCall
    from placet.hook.tools import Tool as Tool
    from placet.hook.tools import tool as tool
else:

    def __getattr__(name: str) -> object:
        """Import a public name on first use, so that unused savers and frameworks are never loaded."""
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
