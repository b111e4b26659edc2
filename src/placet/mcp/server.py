"""Build the MCP server: its tools, its prompt and its instructions."""

import hashlib
from typing import Any

from mcp.server.mcpserver import MCPServer, RequestStateSecurity
from mcp.types import ToolAnnotations

from placet import __version__
from placet.mcp.instructions import INSTRUCTIONS, explain_when_to_ask
from placet.mcp.messengers import open_messengers
from placet.mcp.questions import Questions
from placet.mcp.tools import QuestionTools, build_question_tool
from placet.reviews.registry import DECLARATIONS

__all__ = ["Questions", "build_server", "open_messengers"]

NAME = "placet"
STATE_LIFETIME_S = 24 * 60 * 60  # how long a person may take to accept or decline the link
_ASK_HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
_CHECK_HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)
_READ_HINTS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_WITHDRAW_HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True
)
TITLES = {
    "check_question": "Check a question",
    "list_questions": "List unread questions",
    "withdraw_question": "Withdraw a question",
}
_HINTS = {
    "check_question": _CHECK_HINTS,
    "list_questions": _READ_HINTS,
    "withdraw_question": _WITHDRAW_HINTS,
}


def build_server(questions: Questions, *, key: str) -> MCPServer[Any]:
    """Return a server for these questions; a call interrupted by a restart can be continued."""
    server: MCPServer[Any] = MCPServer(
        NAME,
        title="Placet",
        description="Get human decisions.",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        request_state_security=RequestStateSecurity(keys=[_build_state_key(key)], ttl=STATE_LIFETIME_S),
    )
    tools = QuestionTools(questions)
    for declared in DECLARATIONS.values():
        if declared.is_askable:
            name, title, tool = build_question_tool(tools, declared)
            server.add_tool(tool, name=name, title=title, annotations=_ASK_HINTS)
    for name, title in TITLES.items():
        server.add_tool(getattr(tools, name), name=name, title=title, annotations=_HINTS[name])
    server.prompt(
        "when-to-ask-a-person",
        title="When to ask a person",
        description="When to ask a person, with which tool, and how to use each answer.",
    )(lambda: explain_when_to_ask(DECLARATIONS.values()))
    return server


def _build_state_key(key: str) -> bytes:
    """Return a secret derived from the API key: the same after a restart and in every process."""
    return hashlib.sha256(b"placet mcp request state\n" + key.encode()).digest()
