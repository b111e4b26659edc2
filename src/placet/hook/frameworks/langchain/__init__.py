"""Tool approval for LangChain agents and LangGraph graphs made of them."""

from placet.hook.frameworks.langchain.human_in_the_loop import HumanInTheLoopMiddleware
from placet.hook.frameworks.langchain.middleware import ApprovalMiddleware
from placet.hook.frameworks.langchain.resumption import aresume, interruption_of, interruptions_of, resume

__all__ = [
    "ApprovalMiddleware",
    "HumanInTheLoopMiddleware",
    "aresume",
    "interruption_of",
    "interruptions_of",
    "resume",
]
