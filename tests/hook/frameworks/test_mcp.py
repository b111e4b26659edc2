"""The gate before an MCP server keeps the whole contract; both ways of speaking are in test_mcp_gate."""

from placet.testing.contracts.tool_approval import ToolApprovalContract
from tests.hook.frameworks.mcp_harness import McpHarness


class TestTheGateKeepsTheContract(ToolApprovalContract):
    harness = McpHarness
