"""Tool approval: stops an agent's tool calls until a reviewer has decided them. Names load on first use."""

from typing import TYPE_CHECKING

from placet.extras import NEEDED_BY, is_available
from placet.lazy_exports import load_on_first_use

_EXPORTS: dict[str, str] = {
    "AgentResult": "placet.hook.events",
    "AgentSteps": "placet.hook.agent_steps",
    "Approver": "placet.hook.approver",
    "EmbeddedGrants": "placet.hook.grants",
    "FeedbackResult": "placet.hook.feedback",
    "FileSaver": "placet.hook.savers.file",
    "Gate": "placet.hook.gate",
    "GrantSource": "placet.hook.grants",
    "HumanInTheLoopHook": "placet.hook.approval_rules",
    "InterruptionMetadata": "placet.hook.interruption",
    "LangGraphSaver": "placet.hook.savers.langgraph",
    "MemoryGrants": "placet.hook.grants",
    "MemorySaver": "placet.hook.savers.memory",
    "NotRunReason": "placet.cases.execution_outcomes",
    "PostgresSaver": "placet.hook.savers.postgres",
    "ReactAgent": "placet.hook.agent",
    "RedisSaver": "placet.hook.savers.redis",
    "CheckpointRetention": "placet.hook.savers.saver",
    "Saver": "placet.hook.savers.saver",
    "Replace": "placet.hook.approver",
    "Run": "placet.hook.approver",
    "ServerGrants": "placet.hook.grants",
    "SqliteSaver": "placet.hook.savers.sqlite",
    "Tool": "placet.hook.tools",
    "ToolCall": "placet.hook.tool_call",
    "ToolConfig": "placet.hook.approval_rules",
    "ToolFeedback": "placet.hook.feedback",
    "Wait": "placet.hook.approver",
    "requires_approval": "placet.hook.decorator",
    "resume_as_decided": "placet.hook.thread_resumption",
    "resume_pending": "placet.hook.thread_resumption",
    "aresume_as_decided": "placet.hook.thread_resumption",
    "aresume_pending": "placet.hook.thread_resumption",
    "EmbeddedReviews": "placet.hook.reviews",
    "ServerReviews": "placet.hook.reviews",
    "tool": "placet.hook.tools",
}
"""Public name -> the module that defines it."""

if TYPE_CHECKING:
    from placet.cases.execution_outcomes import NotRunReason as NotRunReason
    from placet.hook.agent import ReactAgent as ReactAgent
    from placet.hook.agent_steps import AgentSteps as AgentSteps
    from placet.hook.approval_rules import HumanInTheLoopHook as HumanInTheLoopHook
    from placet.hook.approval_rules import ToolConfig as ToolConfig
    from placet.hook.approver import Approver as Approver
    from placet.hook.approver import Replace as Replace
    from placet.hook.approver import Run as Run
    from placet.hook.approver import Wait as Wait
    from placet.hook.decorator import requires_approval as requires_approval
    from placet.hook.events import AgentResult as AgentResult
    from placet.hook.feedback import FeedbackResult as FeedbackResult
    from placet.hook.feedback import ToolFeedback as ToolFeedback
    from placet.hook.gate import Gate as Gate
    from placet.hook.grants import EmbeddedGrants as EmbeddedGrants
    from placet.hook.grants import GrantSource as GrantSource
    from placet.hook.grants import MemoryGrants as MemoryGrants
    from placet.hook.grants import ServerGrants as ServerGrants
    from placet.hook.interruption import InterruptionMetadata as InterruptionMetadata
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
    from placet.hook.thread_resumption import aresume_as_decided as aresume_as_decided
    from placet.hook.thread_resumption import aresume_pending as aresume_pending
    from placet.hook.thread_resumption import resume_as_decided as resume_as_decided
    from placet.hook.thread_resumption import resume_pending as resume_pending
    from placet.hook.tool_call import ToolCall as ToolCall
    from placet.hook.tools import Tool as Tool
    from placet.hook.tools import tool as tool
else:
    _load = load_on_first_use(__name__, _EXPORTS)

    def __getattr__(name: str) -> object:
        if name == "__all__":  # asked for by `import *`, which must not need an extra that is not installed
            return sorted(each for each, module in _EXPORTS.items() if _is_available(module))
        return _load(name)

    def _is_available(module: str) -> bool:
        return module not in NEEDED_BY or is_available(NEEDED_BY[module])


def __dir__() -> list[str]:
    return sorted(_EXPORTS)
