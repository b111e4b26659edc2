"""The coding agents that `placet gate` knows. A module is imported when its agent is used."""

from collections.abc import Mapping
from importlib import import_module

from placet.hook.coding_agents.host_calls import CodingAgent

CODING_AGENTS: Mapping[str, str] = {
    "claude-code": "placet.hook.coding_agents.claude_code",
    "codex": "placet.hook.coding_agents.codex",
    "opencode": "placet.hook.coding_agents.opencode",
    "cursor": "placet.hook.coding_agents.cursor",
    "antigravity": "placet.hook.coding_agents.antigravity",
    "gemini-cli": "placet.hook.coding_agents.gemini_cli",
}
"""Name on the command line -> the module that defines it."""


def load_coding_agent(name: str) -> CodingAgent:
    """Return the coding agent with this name."""
    agent: CodingAgent = import_module(CODING_AGENTS[name]).CODING_AGENT
    return agent
