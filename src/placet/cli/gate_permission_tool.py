"""`placet gate permission-tool`: the MCP tool that Claude Code asks for a permission without a terminal."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import click

from placet.cli.gate_hook import FAILED, GateHook
from placet.cli.gate_options import find_default_policy_file, load_policy, policy_option, wait_option
from placet.extras import require_extra

EVENT = "PermissionRequest"


@click.command("permission-tool")
@wait_option
@policy_option
def permission_tool(wait: str, config: Path | None) -> None:
    """Run an MCP server with the tool `approve`, for `claude -p --permission-prompt-tool`.

    Claude Code calls it when it would ask in the terminal. The policy or a person decides.
    """
    require_extra("mcp", "placet gate permission-tool")
    config = (config or find_default_policy_file(os.environ)).absolute()
    load_policy(config, os.environ)  # a mistake in the file is told at the start
    asyncio.run(_serve(GateHook("claude-code", config, wait)))


async def _serve(hook: GateHook) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("placet-gate")

    async def approve(tool_name: str, input: dict[str, Any], tool_use_id: str = "") -> str:
        """Ask a person whether Claude Code may make this tool call."""
        return json.dumps(await decide(hook, tool_name, input, tool_use_id))

    server.tool(structured_output=False)(approve)
    await server.run_stdio_async()


async def decide(hook: GateHook, tool: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    """Return what Claude Code is told about a call: anything but a clear yes is a denial."""
    sent = {
        "hook_event_name": EVENT,
        "cwd": os.getcwd(),
        "tool_name": tool,
        "tool_input": arguments,
        "tool_use_id": call_id,
    }
    said = (await hook.run(EVENT, json.dumps(sent).encode())).get("hookSpecificOutput")
    decision = said.get("decision") if isinstance(said, dict) else None
    if not isinstance(decision, dict) or decision.get("behavior") not in ("allow", "deny"):
        return {"behavior": "deny", "message": FAILED}
    if decision["behavior"] == "allow":
        return {"updatedInput": arguments, **decision}
    return decision
