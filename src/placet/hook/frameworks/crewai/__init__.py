"""Approval for CrewAI; needs the crewai extra."""

from placet.hook.frameworks.crewai.hooks import CrewAIApproval

__all__ = ["CrewAIApproval"]
