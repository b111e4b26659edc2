import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from placet.channels.teams import from_environment
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
    answerers = os.environ["PLACET_TEAMS_ANSWERERS"].split(",")
    app.state.board = ChannelBridge(from_environment(os.environ), cases, answerers=answerers)
    app.state.agent = AsyncAgent(tell=app.state.board.tell, pending=cases)
    app.state.board.nudge = app.state.agent.nudge
    yield
    await app.state.board.aclose()
    await app.state.agent.aclose()


app = FastAPI(lifespan=lifespan)


@app.post("/teams")
async def pressed(request: Request) -> Response:
    """Where Teams tells of presses."""
    call = WebhookRequest(method="POST", headers=dict(request.headers), body=await request.body())
    try:
        heard = await app.state.board.handle_webhook(call)
    except SignatureInvalid:
        return Response(status_code=401)
    return Response(heard.body, heard.status, media_type=heard.content_type)


@app.post("/deploy")
async def deploy() -> dict[str, Any]:
    """Call a service that asks a person first; the question goes to Teams."""
    headers = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
    url = f"{os.environ['PLACET_SERVER']}/v1/cases"
    outcome = await app.state.agent.request("POST", url, json=QUESTION, headers=headers)
    return {"deployed": isinstance(outcome, Decided) and outcome.action == "approve"}


# What follows is for the tests.
import asyncio  # noqa: E402
import time  # noqa: E402
from unittest.mock import patch  # noqa: E402

import httpx  # noqa: E402

from tests.channels.loopback import Loopback, loopback  # noqa: E402
from tests.channels.teams import bot_connector as microsoft  # noqa: E402


async def play() -> None:
    connector = microsoft.BotConnector()
    async with loopback(connector.handle) as server:
        connector.url = server.url
        settings = {
            "PLACET_TEAMS_APP_ID": microsoft.APP_ID,
            "PLACET_TEAMS_APP_SECRET": microsoft.APP_SECRET,
            "PLACET_TEAMS_TENANT_ID": microsoft.TENANT,
            "PLACET_TEAMS_TO": microsoft.PERSON,
            "PLACET_TEAMS_ANSWERERS": f"{microsoft.TENANT}:4711",
            "PLACET_TEAMS_SERVICE_URL": f"{server.url}/teams",
            "PLACET_TEAMS_LOGIN_URL": server.url,
            "PLACET_TEAMS_KEYS_URL": server.url,
        }
        web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent")
        with patch.dict(os.environ, settings):
            await talk(web, connector, server)
    assert connector.problems == []


async def talk(web: httpx.AsyncClient, connector: microsoft.BotConnector, server: Loopback) -> None:
    async with lifespan(app), web:
        deploying = asyncio.create_task(web.post("/deploy", timeout=20))
        await server.wait_until(lambda: bool(connector.messages))
        (message,) = connector.messages.values()
        approve = message["attachments"][0]["content"]["body"][-1]["actions"][0]["data"]["reference"]
        now = int(time.time())
        genuine = microsoft.sign_token(nbf=now, exp=now + 60)
        activity = microsoft.invoke(approve, 1)
        forged = await web.post("/teams", json=activity, headers={"Authorization": genuine + "x"})
        assert forged.status_code == 401
        heard = await web.post("/teams", json=activity, headers={"Authorization": genuine})
        assert heard.json()["value"] == "Your answer was recorded."
        assert (await deploying).json() == {"deployed": True}


asyncio.run(play())
