"""Presses that Discord and WhatsApp report to the server's public address, signed as they sign them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from placet.notify.settings import NotifySettings
from placet.ports.channel import WebhookRequest
from tests.channels.discord import discord_api as discord
from tests.channels.loopback import loopback
from tests.channels.whatsapp import cloud_api as whatsapp
from tests.server.running import running
from tests.waiting import PATIENCE_S

PING = {"id": "1", "application_id": discord.APPLICATION, "type": 1, "token": "t", "version": 1}
pytestmark = pytest.mark.anyio
NOTIFY = {
    "recipients": {
        "team": {"send_to": [f"discord:{discord.PLACE}"], "answerers": {"Ada": "discord:7"}},
        "grace": {"send_to": [f"whatsapp:{whatsapp.TO}"], "answerers": {"Grace": f"whatsapp:{whatsapp.TO}"}},
    },
    "rules": [{"recipients": ["team", "grace"]}],
}


async def test_discord_and_whatsapp_report_presses_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    api, cloud, key = discord.DiscordApi(), whatsapp.CloudApi(), Ed25519PrivateKey.generate()
    async with loopback(api.handle) as discord_server, loopback(cloud.handle) as whatsapp_server:
        variables = {
            "PLACET_DISCORD_BOT_TOKEN": discord.TOKEN,
            "PLACET_DISCORD_PUBLIC_KEY": key.public_key().public_bytes_raw().hex(),
            "PLACET_DISCORD_API_URL": f"{discord_server.url}/api/v10",
            "PLACET_WHATSAPP_ACCESS_TOKEN": whatsapp.ACCESS_TOKEN,
            "PLACET_WHATSAPP_PHONE_NUMBER_ID": whatsapp.PHONE_NUMBER_ID,
            "PLACET_WHATSAPP_APP_SECRET": whatsapp.APP_SECRET,
            "PLACET_WHATSAPP_VERIFY_TOKEN": whatsapp.VERIFY_TOKEN,
            "PLACET_WHATSAPP_API_URL": whatsapp_server.url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        unused: Any = None
        on_discord = discord.DiscordHarness(api, discord_server, unused, key)
        on_whatsapp = whatsapp.WhatsAppHarness(cloud, whatsapp_server, unused)
        work = running(tmp_path, present=True, notify=msgspec.convert(NOTIFY, NotifySettings))
        server = await asyncio.to_thread(work.__enter__)
        try:
            async with httpx.AsyncClient(base_url=f"{server.url}/notify/webhooks") as platform:

                async def call(name: str, request: WebhookRequest) -> httpx.Response:
                    return await platform.request(
                        request.method,
                        f"/{name}",
                        headers=dict(request.headers),
                        content=request.body,
                        params=dict(request.query),
                    )

                challenge = await call("whatsapp", whatsapp.build_challenge_request())
                assert (challenge.status_code, challenge.text) == (200, "1158201444")
                guessed = whatsapp.build_challenge_request(**{"hub.verify_token": "guessed"})
                assert (await call("whatsapp", guessed)).status_code == 401
                now = datetime.now(UTC)
                ping = await call("discord", on_discord.sign_request(PING, at=now))
                assert ping.json() == {"type": 1}
                forged = on_discord.sign_request(PING, at=now, key=Ed25519PrivateKey.generate())
                assert (await call("discord", forged)).status_code == 401

                with server.client(server.api_key) as client:
                    hitl = await asyncio.to_thread(server.open, client)
                    await discord_server.wait_until(lambda: bool(api.messages), within=PATIENCE_S)
                    await whatsapp_server.wait_until(lambda: bool(cloud.messages), within=PATIENCE_S)
                    confirm = on_discord.list_messages()[0].references[0]
                    elsewhere = on_whatsapp.list_messages()[0].references[0]
                    assert confirm == elsewhere  # the case and the action; it gives no access

                    stranger = on_discord.build_press(confirm, user_id="8")
                    refused = await call("discord", on_discord.sign_request(stranger, at=now))
                    assert "not allowed" in refused.text
                    no_reference = on_discord.build_press("n1" + "A" * 40)
                    assert (
                        "closed"
                        in (await call("discord", on_discord.sign_request(no_reference, at=now))).text
                    )
                    press = on_discord.sign_request(on_discord.build_press(confirm), at=now)
                    for _ in range(2):  # platforms repeat themselves
                        assert "recorded" in (await call("discord", press)).text
                    poll = (await asyncio.to_thread(client.get, hitl["poll_url"])).json()
                assert (poll["status"], poll["responded_by"]) == ("completed", {"name": "Ada"})
                await discord_server.wait_until(
                    lambda: on_discord.list_messages()[0].references == (), within=PATIENCE_S
                )
                await whatsapp_server.wait_until(lambda: len(cloud.messages) == 2, within=PATIENCE_S)
        finally:
            await asyncio.to_thread(work.__exit__, None, None, None)
    assert not api.problems
    assert not cloud.problems
