"""The OpenAI Agents SDK with approval: the whole contract, and what only this framework can get wrong."""

from assent.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.openai_agents_harness import OpenAIAgents


class TestOpenAIAgentsKeepTheContract(ToolApprovalContract):
    harness = OpenAIAgents
