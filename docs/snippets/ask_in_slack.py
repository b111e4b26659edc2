import asyncio
import os

import httpx

from placet.agent import AsyncAgent, ChannelBridge, Outcome, PendingCases
from placet.channels.slack import from_environment

QUESTION = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


async def ask() -> httpx.Response | Outcome:
    """Call a service that asks a person first; the question goes to Slack."""
    cases = PendingCases("agent.db")
    answerers = os.environ["PLACET_SLACK_ANSWERERS"].split(",")
    board = ChannelBridge(from_environment(os.environ), cases, answerers=answerers)
    agent = AsyncAgent(tell=board.tell, pending=cases)
    board.nudge = agent.nudge
    listening = asyncio.create_task(board.listen())
    try:
        headers = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
        url = f"{os.environ['PLACET_SERVER']}/v1/cases"
        return await agent.request("POST", url, json=QUESTION, headers=headers)
    finally:
        listening.cancel()
        await board.aclose()
        await agent.aclose()


if __name__ == "__main__":
    print(asyncio.run(ask()))

# What follows is for the tests.
from unittest.mock import patch  # noqa: E402

from placet.agent import Decided  # noqa: E402
from tests.channels.loopback import loopback  # noqa: E402
from tests.channels.slack.socket_server import socket_server  # noqa: E402
from tests.channels.slack.workspace import APP_TOKEN, PLACE, TOKEN, Workspace  # noqa: E402


async def play() -> None:
    workspace = Workspace()
    async with loopback(workspace.handle) as slack, socket_server() as sockets:
        workspace.socket_url = sockets.url
        settings = {
            "PLACET_SLACK_BOT_TOKEN": TOKEN,
            "PLACET_SLACK_APP_TOKEN": APP_TOKEN,
            "PLACET_SLACK_CHANNEL": PLACE,
            "PLACET_SLACK_ANSWERERS": "T01:U7,T01:U8",
            "PLACET_SLACK_API_URL": f"{slack.url}/api",
        }
        with patch.dict(os.environ, settings):
            asking = asyncio.create_task(ask())
            connection = await asyncio.wait_for(sockets.connections.get(), 20)
            await connection.hello()
            await slack.wait_until(lambda: bool(workspace.messages))
            ((stamp, message),) = workspace.messages.items()
            reject = message["blocks"][-1]["elements"][1]["value"]
            await connection.deliver("e1", workspace.interaction(stamp, reject))
            outcome = await asyncio.wait_for(asking, 20)
    assert isinstance(outcome, Decided)
    assert outcome.action == "reject"
    assert workspace.problems == []
    assert "Rejected" in workspace.messages[stamp]["text"]


asyncio.run(play())
