import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from placet.agent import AsyncAgent, ChannelBridge, Decided, PendingCases
from placet.channels.whatsapp import from_environment
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
    answerers = os.environ["PLACET_WHATSAPP_ANSWERERS"].split(",")
    app.state.board = ChannelBridge(from_environment(os.environ), cases, answerers=answerers)
    app.state.agent = AsyncAgent(tell=app.state.board.tell, pending=cases)
    app.state.board.nudge = app.state.agent.nudge
    yield
    await app.state.board.aclose()
    await app.state.agent.aclose()


app = FastAPI(lifespan=lifespan)


@app.api_route("/whatsapp", methods=["GET", "POST"])
async def heard(request: Request) -> Response:
    """Where WhatsApp asks whether this is yours (GET), and tells of presses (POST)."""
    call = WebhookRequest(
        method=request.method,
        headers=dict(request.headers),
        body=await request.body(),
        query=dict(request.query_params),
    )
    try:
        heard = await app.state.board.handle_webhook(call)
    except SignatureInvalid:
        return Response(status_code=401)
    return Response(heard.body, heard.status, media_type=heard.content_type)


@app.post("/deploy")
async def deploy() -> dict[str, Any]:
    """Call a service that asks a person first; the question goes to WhatsApp."""
    headers = {"Authorization": f"Bearer {os.environ['PLACET_KEY']}"}
    url = f"{os.environ['PLACET_SERVER']}/v1/cases"
    outcome = await app.state.agent.request("POST", url, json=QUESTION, headers=headers)
    return {"deployed": isinstance(outcome, Decided) and outcome.action == "approve"}


# What follows is for the tests.
import asyncio  # noqa: E402
from typing import cast  # noqa: E402
from unittest.mock import patch  # noqa: E402

import httpx  # noqa: E402

from placet.channels.whatsapp import WhatsAppChannel  # noqa: E402
from placet.ports.channel import SentMessage  # noqa: E402
from placet.testing.clock import DAYBREAK  # noqa: E402
from tests.channels.loopback import loopback  # noqa: E402
from tests.channels.whatsapp.cloud_api import (  # noqa: E402
    ACCESS_TOKEN,
    APP_SECRET,
    PHONE_NUMBER_ID,
    TO,
    VERIFY_TOKEN,
    CloudApi,
    WhatsAppHarness,
    build_challenge_request,
)


async def play() -> None:
    api = CloudApi()
    async with loopback(api.handle) as whatsapp:
        settings = {
            "PLACET_WHATSAPP_ACCESS_TOKEN": ACCESS_TOKEN,
            "PLACET_WHATSAPP_PHONE_NUMBER_ID": PHONE_NUMBER_ID,
            "PLACET_WHATSAPP_TO": f"+{TO}",
            "PLACET_WHATSAPP_ANSWERERS": TO,
            "PLACET_WHATSAPP_APP_SECRET": APP_SECRET,
            "PLACET_WHATSAPP_VERIFY_TOKEN": VERIFY_TOKEN,
            "PLACET_WHATSAPP_API_URL": whatsapp.url,
        }
        harness = WhatsAppHarness(api, whatsapp, cast(WhatsAppChannel, None))
        web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent")
        with patch.dict(os.environ, settings):
            await talk(web, harness)
    assert api.problems == []
    assert list(harness.list_replies()) == ["Your answer was recorded."]
    assert "Approved" in harness.list_messages()[-1].text


async def talk(web: httpx.AsyncClient, harness: WhatsAppHarness) -> None:
    async with lifespan(app), web:
        asked = await web.get("/whatsapp", params=dict(build_challenge_request().query))
        assert asked.text == "1158201444"
        deploying = asyncio.create_task(web.post("/deploy", timeout=20))
        await harness.server.wait_until(lambda: bool(harness.list_messages()))
        ticket = SentMessage(channel="whatsapp", conversation_id=TO, message_id="wamid.1", sent_at=DAYBREAK)
        call = harness.press(ticket, harness.list_messages()[0].references[0], user_id=TO, name="Ada")
        forged = await web.post("/whatsapp", content=call.body + b" ", headers=dict(call.headers))
        assert forged.status_code == 401
        assert (await web.post("/whatsapp", content=call.body, headers=dict(call.headers))).is_success
        assert (await deploying).json() == {"deployed": True}


asyncio.run(play())
