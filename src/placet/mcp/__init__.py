"""Placet as an MCP server: tools with which an assistant asks a person."""
