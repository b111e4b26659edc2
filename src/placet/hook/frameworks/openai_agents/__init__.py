"""Tool approval for the OpenAI Agents SDK."""

from placet.hook.frameworks.openai_agents.approval import OpenAIAgentsApproval, Outcome, RepeatedResult

__all__ = ["OpenAIAgentsApproval", "Outcome", "RepeatedResult"]
