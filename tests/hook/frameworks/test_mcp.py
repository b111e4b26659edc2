"""The gate before an MCP server: the whole contract, in both ways of speaking."""

from assent.testing.contracts.tool_approval import InOneProcessContract, ToolApprovalContract
from tests.hook.frameworks.mcp_harness import Mcp, McpByHandshake


class TestTheGateKeepsTheContract(ToolApprovalContract):
    harness = Mcp


class TestTheGateKeepsTheContractForOlderClients(InOneProcessContract):
    harness = McpByHandshake
