import asyncio
import os

import httpx

from placet.agent import AsyncAgent, ChannelBridge, Outcome, PendingCases
from placet.channels.telegram import from_environment

QUESTION = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


async def ask() -> httpx.Response | Outcome:
    """Call a service that asks a person first; the question goes to Telegram."""
    cases = PendingCases("agent.db")
    answerers = os.environ["PLACET_TELEGRAM_ANSWERERS"].split(",")
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
from tests.channels.telegram.bot_api import TOKEN, BotApi  # noqa: E402


async def play() -> None:
    api = BotApi()
    async with loopback(api.handle) as telegram:
        settings = {
            "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
            "PLACET_TELEGRAM_CHAT_ID": "7",
            "PLACET_TELEGRAM_ANSWERERS": "7",
            "PLACET_TELEGRAM_API_URL": telegram.url,
        }
        with patch.dict(os.environ, settings):
            asking = asyncio.create_task(ask())
            await telegram.wait_until(lambda: bool(api.messages))
            reject = api.messages[1]["reply_markup"]["inline_keyboard"][0][1]
            api.deliver(api.press(1, reject["callback_data"], user_id=7))
            outcome = await asyncio.wait_for(asking, 20)
    assert isinstance(outcome, Decided)
    assert outcome.action == "reject"
    assert api.problems == []
    assert "Rejected" in api.messages[1]["text"]


asyncio.run(play())
