"""A program of your own that asks through `placet mcp`, as an assistant does."""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
from mcp import Client, StdioServerParameters

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
server = {"PLACET_SERVER": os.environ["PLACET_SERVER"], "PLACET_KEY": os.environ["PLACET_KEY"]}


def hand_over(review_url: str) -> None:
    """Play the person, who opens the link and approves."""
    threading.Thread(target=httpx.post, args=(review_url.replace("?", "/respond?"),), kwargs=ANSWER).start()


ANSWER: dict[str, Any] = {"json": {"action": "approve"}, "timeout": 20}
REPLY = {"prompt": "May this reply go out?", "text": "Your parcel is on its way.", "wait_seconds": 0}
PLACET = StdioServerParameters(command="placet", args=["mcp", "--pending", "open-questions.db"], env=server)


async def ask() -> dict[str, Any]:
    """Ask, hand the link over, and come back until there is an end."""
    async with Client(PLACET) as client:
        question = (await client.call_tool("ask_approval", REPLY)).structured_content or {}
        hand_over(question["review_url"])
        while question["status"] in ("pending", "opened", "in_progress"):
            check = {"case_id": question["case_id"], "wait_seconds": 60}
            question = (await client.call_tool("check_question", check)).structured_content or {}
        return question


decided = asyncio.run(ask())
assert (decided["status"], decided["action"], decided["verified"]) == ("completed", "approve", True)
