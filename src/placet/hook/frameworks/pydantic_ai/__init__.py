"""Tool approval for Pydantic AI."""

from placet.hook.frameworks.pydantic_ai.approval import ApprovalToolset, PydanticAIApproval, PydanticOutcome

__all__ = ["ApprovalToolset", "PydanticAIApproval", "PydanticOutcome"]
