"""Approval for the Claude Agent SDK; needs the claude-agent-sdk extra."""

from placet.hook.frameworks.claude_agent_sdk.hooks import ClaudeAgentApproval

__all__ = ["ClaudeAgentApproval"]
