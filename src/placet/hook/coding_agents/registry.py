"""The coding agents that `placet gate` knows. A module is imported when its agent is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from placet.hook.coding_agents.host_calls import CallConverter, CodingAgent

if TYPE_CHECKING:
    from placet.hook.coding_agents.proxied_agents import ProxiedAgent

CODING_AGENTS: Mapping[str, str] = {
    "claude-code": "placet.hook.coding_agents.claude_code",
    "codex": "placet.hook.coding_agents.codex",
    "opencode": "placet.hook.coding_agents.opencode",
    "cursor": "placet.hook.coding_agents.cursor",
    "antigravity": "placet.hook.coding_agents.antigravity",
    "gemini-cli": "placet.hook.coding_agents.gemini_cli",
}
"""Name on the command line -> the module that defines it."""


PROXIED_AGENTS: Mapping[str, str] = {
    "acp": "placet.hook.coding_agents.acp",
    "codex-app-server": "placet.hook.coding_agents.codex_app_server",
}
"""Protocol on the command line -> the module that defines it. `placet acp` stands between its two sides."""


def load_coding_agent(name: str) -> CodingAgent:
    """Return the coding agent with this name."""
    agent: CodingAgent = import_module(CODING_AGENTS[name]).CODING_AGENT
    return agent


def load_proxied_agent(name: str) -> "ProxiedAgent":
    """Return the protocol with this name."""
    agent: ProxiedAgent = import_module(PROXIED_AGENTS[name]).CODING_AGENT
    return agent


def load_call_converter(name: str) -> CallConverter:
    """Return what converts the calls of a coding agent or a protocol."""
    return load_coding_agent(name) if name in CODING_AGENTS else load_proxied_agent(name)
