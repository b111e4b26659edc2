"""Uses what a plain installation offers: the agent client, the hook with a scripted model, signatures."""

import sys
from pathlib import Path

import placet.agent
from placet import PlacetClient, verify_callback, verify_result
from placet.hook import AgentResult, FileSaver, HumanInTheLoopHook, InterruptionMetadata, ReactAgent

folder = Path(sys.argv[1])


def delete(table: str) -> str:
    """Delete a table."""
    return f"deleted {table}"


def model(messages: list, tools: list) -> dict:
    if messages[-1]["role"] == "tool":
        return {"content": messages[-1]["content"]}
    return {"tool_calls": [{"id": "a", "name": "delete", "arguments": {"table": "t"}}]}


with placet.agent.Agent(tell=print) as agent:
    assert callable(agent.follow)
with PlacetClient("http://127.0.0.1:1", "key") as client:
    assert callable(client.open)
assert callable(verify_callback)
assert callable(verify_result)

hook = HumanInTheLoopHook(approval_on={"delete": "Deletes for good"})
react = ReactAgent("janitor", model, [delete], hooks=[hook], saver=FileSaver(folder))
stopped = react.invoke("Delete it.", thread_id="1")
assert isinstance(stopped, InterruptionMetadata)
edited = react.resume("1", stopped.edit("a", {"table": "old"}))
assert isinstance(edited, AgentResult)
assert "deleted old" in edited.text, edited.text

server_parts = {"aiohttp", "babel", "jinja2", "starlette", "uvicorn"} & set(sys.modules)
assert not server_parts, server_parts
