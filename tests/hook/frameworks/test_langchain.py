"""LangChain's agent passes the contract, sync and async."""

from assent.testing.contracts.tool_approval import InOneProcessContract, ToolApprovalContract
from tests.hook.frameworks.langchain_harness import AsyncLangChainHarness, LangChainHarness


class TestLangChain(ToolApprovalContract):
    harness = LangChainHarness


class TestLangChainAsync(InOneProcessContract):
    harness = AsyncLangChainHarness
