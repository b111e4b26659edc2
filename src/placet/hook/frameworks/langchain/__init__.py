"""Tool approval for LangChain agents and LangGraph graphs made of them."""

from placet.hook.frameworks.langchain.middleware import (
    ApprovalMiddleware,
    aresume,
    interruption_of,
    interruptions_of,
    resume,
)

__all__ = ["ApprovalMiddleware", "aresume", "interruption_of", "interruptions_of", "resume"]
