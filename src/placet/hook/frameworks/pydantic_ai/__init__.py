"""Tool approval for Pydantic AI."""

from placet.hook.frameworks.pydantic_ai.approval import ApprovalToolset, Outcome, PydanticAIApproval

__all__ = ["ApprovalToolset", "Outcome", "PydanticAIApproval"]
