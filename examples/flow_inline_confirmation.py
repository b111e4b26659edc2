"""Inline confirmation: the question comes to Telegram with buttons, a press answers it, the message says so.

python -m examples.flow_inline_confirmation
"""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException, Request

from examples.play.telegram import CHAT, Telegram
from examples.play.transcript import say
from examples.stage import PATIENCE_S, find_free_port, serve_app
from placet import Placet
from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from placet.channels.telegram import TelegramChannel

PORT, TELEGRAM_PORT = find_free_port(), find_free_port()
URL = f"http://127.0.0.1:{PORT}"
BOT_TOKEN = "123456:token-of-the-bot"
ADA, STRANGER = 7, 8
QUESTION = "Send these two applications?"
EMAILS = [{"id": "lumen", "label": "To Lumen"}, {"id": "harbour", "label": "To Harbour"}]
SENT: list[str] = []

# The service: sends mail that cannot be called back, so a person confirms it, by a button if they like.
placet = Placet(
    base_url=f"{URL}/placet",
    db=":memory:",
    service_name="Mail Room",
    authenticate=lambda request: request.headers.get("x-agent"),
)
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/emails")
async def prepare(request: Request) -> Any:
    """Ready to go, but for a person's word."""
    return await placet.confirmation(
        QUESTION,
        items=EMAILS,
        inline_actions=["confirm", "cancel"],
        request=request,
    )


@app.post("/emails/{case_id}/send")
async def send(request: Request, case_id: str) -> dict[str, list[str]]:
    """What was confirmed, and only then."""
    found = await placet.status(case_id, request=request)
    if found.result is None or found.result.action != "confirm":
        raise HTTPException(409, "Nobody has confirmed this.")
    SENT.extend(found.result.data["confirmed_items"])
    return {"sent": SENT}


async def play(telegram: Telegram, folder: Path) -> None:
    """The agent: asks in Telegram, hears the press without a public address, and acts on it."""
    cases = PendingCases(folder / "agent.db")
    channel = TelegramChannel(
        token=BOT_TOKEN,
        chat_id=str(CHAT["id"]),
        api_url=f"http://127.0.0.1:{TELEGRAM_PORT}",
        poll_timeout_s=1,
    )
    board = ChannelBridge(channel, cases, answerers=[str(ADA)])
    http = httpx.AsyncClient(base_url=URL, headers={"X-Agent": "mail-agent"})
    agent = AsyncAgent(tell=board.tell, http=http, pending=cases, max_wait=timedelta(seconds=PATIENCE_S))
    board.nudge = agent.nudge
    listening = asyncio.create_task(board.listen())
    try:
        say("agent", "asks the Mail Room to send two applications")
        following = asyncio.create_task(agent.request("POST", "/emails"))
        outcome, _ = await asyncio.gather(following, asyncio.to_thread(read_and_press, telegram, cases))
        assert isinstance(outcome, Decided)
        assert (outcome.action, outcome.data["confirmed_items"]) == ("confirm", ["lumen", "harbour"])
        told = outcome.raw["submission_context"]
        assert told["submitted_via"] == "telegram_inline_button"
        assert told["submitted_by"]["platform_user_id"] == str(ADA)
        sent = await http.post(f"/emails/{outcome.case_id}/send")
        say("Mail Room", f"sent: {', '.join(sent.json()['sent'])}")
    finally:
        listening.cancel()
        await board.aclose()
        await http.aclose()


def read_and_press(telegram: Telegram, cases: PendingCases) -> None:
    """The people in the chat: one who may only read along, and Ada, whose press comes twice."""
    telegram.until(lambda: {"Confirm", "Do not do it"} <= set(telegram.buttons))
    say("Telegram", f"shows Ada: {QUESTION} [{'] ['.join([*telegram.buttons, *telegram.links])}]")

    telegram.press("Confirm", user_id=STRANGER, name="Mallory")
    telegram.until(lambda: len(telegram.notices) == 1)
    say("Telegram", f"tells Mallory, who pressed Confirm: {telegram.notices[0]}")
    (waiting,) = cases.list_pending()
    assert waiting.case.review_url in telegram.links.values(), "the link is there beside the buttons"
    early = httpx.post(f"{URL}/emails/{waiting.case.case_id}/send", headers={"X-Agent": "mail-agent"})
    assert early.status_code == 409, "neither silence nor a stranger confirms"

    telegram.press("Confirm", user_id=ADA, name="Ada", times=2)
    telegram.until(lambda: telegram.notices[1:] == ["Your answer was recorded."] * 2)
    say("Telegram", f"tells Ada, who pressed Confirm: {telegram.notices[1]}")
    telegram.until(lambda: not telegram.buttons)
    assert "Confirmed" in telegram.text
    say("Telegram", "shows the message without buttons: Confirmed")
    assert len(telegram.messages) == 1
    assert waiting.case.submit_token
    assert waiting.case.submit_token not in telegram.heard, "a button carries no token"


def main() -> None:
    telegram = Telegram(BOT_TOKEN)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_app(app, PORT),
        serve_app(telegram.app, TELEGRAM_PORT),
    ):
        asyncio.run(play(telegram, Path(folder)))
    assert SENT == ["lumen", "harbour"]


if __name__ == "__main__":
    main()
