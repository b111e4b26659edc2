"""Placet as an MCP server, with tools for asking a person."""
