"""Tool approval for the OpenAI Agents SDK."""

from placet.hook.frameworks.openai_agents.approval import OpenAIAgentsApproval, OpenAIOutcome, RepeatedResult

__all__ = ["OpenAIAgentsApproval", "OpenAIOutcome", "RepeatedResult"]
