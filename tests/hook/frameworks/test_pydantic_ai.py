"""Pydantic AI with approval: the whole contract, and what only this framework can get wrong."""

from assent.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.pydantic_ai_harness import PydanticAI


class TestPydanticAIKeepsTheContract(ToolApprovalContract):
    harness = PydanticAI
