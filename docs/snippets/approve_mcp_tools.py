"""An assistant with a server for files, before and after a gate was put in front of it."""

import asyncio
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from placet import PlacetClient
from placet.hook import SqliteSaver
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.policy import gate_unless_read_only
from placet.hook.frameworks.mcp.upstream import McpUpstream

files = MCPServer("files", log_level="ERROR")


@files.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@files.tool(annotations=ToolAnnotations(destructive_hint=True))
def write_file(path: str, text: str) -> str:
    """Write a file, whatever was in it."""
    Path(path).write_text(text)
    return f"wrote {path}"


if __name__ == "__main__":
    files.run()
    sys.exit()

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
FILES = StdioServerParameters(command=sys.executable, args=[__file__])
server = {"PLACET_SERVER": os.environ["PLACET_SERVER"], "PLACET_KEY": os.environ["PLACET_KEY"]}
command = ["--db", "gate.db", "--wait", "1s", "--", sys.executable, __file__]
NOTE = {"path": "note.txt", "text": "Buy milk"}


def text_of(result: CallToolResult) -> str:
    """What the model reads."""
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))


def somebody_says_no(result: CallToolResult) -> None:
    """Play the person, who has better things to do."""
    with PlacetClient(server["PLACET_SERVER"], server["PLACET_KEY"]) as placet:
        placet.cancel((result.meta or {})["placet/waiting"]["case_id"], reason="We have milk")


async def write() -> CallToolResult:
    """Call a tool that waits for a person; come back until they have decided."""
    gated = StdioServerParameters(command="placet", args=["mcp-gate", *command], env=server)
    async with Client(gated) as client:
        result = await client.call_tool("write_file", NOTE)
        while "placet/waiting" in (result.meta or {}):
            await asyncio.to_thread(somebody_says_no, result)
            result = await client.call_tool("write_file", NOTE)
        return result


said = asyncio.run(write())
assert said.is_error
assert "We have milk" in text_of(said)
assert not Path("note.txt").exists()


async def in_code() -> None:
    """The gate without a server of ours, in one's own program."""
    async with McpUpstream(lambda: FILES) as upstream:
        gate = ApprovalProxy(upstream, gate_unless_read_only(), saver=SqliteSaver("calls.db"), wait_for=0)
        async with Client(await gate.server()) as client:
            await client.call_tool("write_file", NOTE)
            for waiting in gate.waiting():
                gate.answer(waiting.thread_id, waiting.approve_all())
            print(await client.call_tool("write_file", NOTE))


asyncio.run(in_code())
assert Path("note.txt").read_text() == "Buy milk"
