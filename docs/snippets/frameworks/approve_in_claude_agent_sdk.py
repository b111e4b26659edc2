"""A refund in the Claude Agent SDK that a person approves; run it with PLACET_SERVER and PLACET_KEY."""

import asyncio
import os
import threading
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, ServerReviews, SqliteSaver
from placet.hook.frameworks.claude_agent_sdk import ClaudeAgentApproval

refunded: list[str] = []


@tool("refund", "Pay an order back.", {"order": str})
async def refund(given: dict[str, Any]) -> dict[str, Any]:
    refunded.append(given["order"])
    return {"content": [{"type": "text", "text": f"refunded {given['order']}"}]}


client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
hook = HumanInTheLoopHook({"mcp__shop__refund": "Refunds need approval"})
approval = ClaudeAgentApproval(
    hook, saver=SqliteSaver("approvals.db"), run_id="order 17", reviews=ServerReviews(client)
)
options = ClaudeAgentOptions(
    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[refund])},
    allowed_tools=["mcp__shop__refund"],
    setting_sources=[],
)


async def prompt() -> Any:
    yield {"type": "user", "message": {"role": "user", "content": "Pay order 17 back."}}
    await ended.wait()


async def run() -> None:
    async for message in query(prompt=prompt(), options=approval.gate(options)):
        if isinstance(message, ResultMessage):
            print(message.result)
            ended.set()


def decide() -> None:
    """Decide from another thread; on the page, a person does this."""
    while not (stopped := approval.waiting()):
        threading.Event().wait(0.1)
    print("Please decide:", (stopped[0].case or {}).get("review_url"))
    assert refunded == []
    approval.answer(stopped[0].edit_tool("mcp__shop__refund", {"order": "18"}))


async def main() -> None:
    await asyncio.gather(run(), asyncio.to_thread(decide))


ended = asyncio.Event()
asyncio.run(main())
assert refunded == ["18"]
client.close()
