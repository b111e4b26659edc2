import asyncio
import os

import httpx

from placet.agent import AsyncAgent, ChannelBridge, Outcome, PendingCases
from placet.channels.email import from_environment

QUESTION = {"type": "approval", "prompt": "Deploy 4.2 to production?", "context": {"version": "4.2"}}


async def ask() -> httpx.Response | Outcome:
    """Call a service that asks a person first; the question goes out by mail."""
    cases = PendingCases("agent.db")
    board = ChannelBridge(from_environment(os.environ), cases)
    agent = AsyncAgent(tell=board.tell, pending=cases)
    try:
        headers = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
        url = f"{os.environ['PLACET_SERVER']}/v1/cases"
        return await agent.request("POST", url, json=QUESTION, headers=headers)
    finally:
        await board.aclose()
        await agent.aclose()


if __name__ == "__main__":
    print(asyncio.run(ask()))

# What follows is for the tests.
import re  # noqa: E402
from unittest.mock import patch  # noqa: E402

from placet.agent import Decided  # noqa: E402
from tests.channels.email.mail_server import RECIPIENT, SENDER, mail_server  # noqa: E402
from tests.server.running import ReviewPage  # noqa: E402


def approve(link: str) -> None:
    with httpx.Client(follow_redirects=True, timeout=20) as client:
        ReviewPage(client, client.get(link)).post("respond", {"action": "approve"})


async def play() -> None:
    async with mail_server() as server:
        settings = {
            "PLACET_EMAIL_HOST": "127.0.0.1",
            "PLACET_EMAIL_PORT": str(server.port),
            "PLACET_EMAIL_FROM": SENDER,
            "PLACET_EMAIL_TO": RECIPIENT,
        }
        with patch.dict(os.environ, settings):
            asking = asyncio.create_task(ask())
            await server.wait_until(1)
            (link,) = re.findall(r"^http\S+", server.mails[0].part("plain"), flags=re.MULTILINE)
            await asyncio.to_thread(approve, link)
            outcome = await asyncio.wait_for(asking, 20)
    assert isinstance(outcome, Decided)
    assert outcome.action == "approve"
    assert "Approved" in server.mails[1].part("plain")


asyncio.run(play())
