import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from placet.channels.discord import from_environment
from placet.errors import SignatureInvalid
from placet.ports.channel import WebhookRequest

QUESTION = {
    "type": "approval",
    "prompt": "Deploy 4.2 to production?",
    "inline_actions": ["approve", "reject"],
    "context": {"version": "4.2", "risk": "low"},
}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    cases = PendingCases("agent.db")
    answerers = os.environ["PLACET_DISCORD_ANSWERERS"].split(",")
    app.state.board = ChannelBridge(from_environment(os.environ), cases, answerers=answerers)
    app.state.agent = AsyncAgent(tell=app.state.board.tell, pending=cases)
    app.state.board.nudge = app.state.agent.nudge
    yield
    await app.state.board.aclose()
    await app.state.agent.aclose()


app = FastAPI(lifespan=lifespan)


@app.post("/discord")
async def pressed(request: Request) -> Response:
    """Where Discord tells of presses."""
    call = WebhookRequest(method="POST", headers=dict(request.headers), body=await request.body())
    try:
        heard = await app.state.board.handle_webhook(call)
    except SignatureInvalid:
        return Response(status_code=401)
    return Response(heard.body, heard.status, media_type=heard.content_type)


@app.post("/deploy")
async def deploy() -> dict[str, Any]:
    """Call a service that asks a person first; the question goes to Discord."""
    headers = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
    url = f"{os.environ['PLACET_SERVER']}/v1/cases"
    outcome = await app.state.agent.request("POST", url, json=QUESTION, headers=headers)
    return {"deployed": isinstance(outcome, Decided) and outcome.action == "approve"}


# What follows is for the tests.
import asyncio  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from typing import cast  # noqa: E402
from unittest.mock import patch  # noqa: E402

import httpx  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402

from placet.channels.discord import DiscordChannel  # noqa: E402
from tests.channels.discord.discord_api import PLACE, TOKEN, DiscordApi, DiscordHarness  # noqa: E402
from tests.channels.loopback import loopback  # noqa: E402


async def play() -> None:
    api, key = DiscordApi(), Ed25519PrivateKey.generate()
    async with loopback(api.handle) as discord:
        settings = {
            "PLACET_DISCORD_BOT_TOKEN": TOKEN,
            "PLACET_DISCORD_CHANNEL_ID": PLACE,
            "PLACET_DISCORD_PUBLIC_KEY": key.public_key().public_bytes_raw().hex(),
            "PLACET_DISCORD_ANSWERERS": "7,9",
            "PLACET_DISCORD_API_URL": f"{discord.url}/api/v10",
        }
        harness = DiscordHarness(api, discord, cast(DiscordChannel, None), key)
        transport = httpx.ASGITransport(app)
        web = httpx.AsyncClient(transport=transport, base_url="http://agent")
        with patch.dict(os.environ, settings):
            await talk(web, harness)
    assert api.problems == []


async def talk(web: httpx.AsyncClient, harness: DiscordHarness) -> None:
    async with lifespan(app), web:
        deploying = asyncio.create_task(web.post("/deploy", timeout=20))
        await harness.server.wait_until(lambda: bool(harness.list_messages()))
        body = harness.build_press(harness.list_messages()[0].references[0], user_id="9")
        call = harness.sign_request(body, at=datetime.now(UTC))
        forged = await web.post("/discord", content=call.body + b" ", headers=dict(call.headers))
        assert forged.status_code == 401
        heard = await web.post("/discord", content=call.body, headers=dict(call.headers))
        assert heard.json()["data"]["content"] == "Your answer was recorded."
        assert (await deploying).json() == {"deployed": True}


asyncio.run(play())
