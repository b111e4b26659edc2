"""Tool approval for any MCP server: a proxy that forwards everything and stops tool calls for review."""

from placet.hook.frameworks.mcp.policy import gate_unless_read_only, read_policy
from placet.hook.frameworks.mcp.proxy import ApprovalProxy
from placet.hook.frameworks.mcp.upstream import McpUpstream

__all__ = ["ApprovalProxy", "McpUpstream", "gate_unless_read_only", "read_policy"]
