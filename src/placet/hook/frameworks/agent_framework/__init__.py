"""Approval for Microsoft's Agent Framework; needs the agent-framework extra."""

from placet.hook.frameworks.agent_framework.middleware import AgentFrameworkApproval

__all__ = ["AgentFrameworkApproval"]
