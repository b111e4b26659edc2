"""Presses that Discord, WhatsApp and Teams report to the server, signed as they sign them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from placet.notify.settings import NotifySettings
from placet.ports.channel import WebhookRequest
from tests.channels.discord import discord_api as discord
from tests.channels.loopback import loopback
from tests.channels.teams import bot_connector as teams
from tests.channels.whatsapp import cloud_api as whatsapp
from tests.notify.notified_people import wait_until_delivered
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
                    await wait_until_delivered(server, hitl)
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


async def test_teams_reports_presses_to_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    connector, unused = teams.BotConnector(), cast("Any", None)
    grace = {
        "send_to": [f"teams:{teams.PERSON}"],
        "answerers": {"Grace": f"teams:{teams.TENANT}:{teams.PERSON}"},
    }
    notify = {"recipients": {"grace": grace}, "rules": [{"recipients": ["grace"]}]}
    async with loopback(connector.handle) as microsoft:
        connector.url = microsoft.url
        variables = {
            "PLACET_TEAMS_APP_ID": teams.APP_ID,
            "PLACET_TEAMS_APP_SECRET": teams.APP_SECRET,
            "PLACET_TEAMS_TENANT_ID": teams.TENANT,
            "PLACET_TEAMS_SERVICE_URL": f"{microsoft.url}/teams/",
            "PLACET_TEAMS_LOGIN_URL": microsoft.url,
            "PLACET_TEAMS_KEYS_URL": microsoft.url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        on_teams = teams.TeamsHarness(connector, microsoft, unused)
        work = running(tmp_path, present=True, notify=msgspec.convert(notify, NotifySettings))
        server = await asyncio.to_thread(work.__enter__)
        now = int(datetime.now(UTC).timestamp())
        signed: dict[str, Any] = {"nbf": now - 60, "exp": now + 3540}

        def build_press(reference: str, number: int, *, person: str, token: str) -> WebhookRequest:
            sender = {"id": "29:1abc", "name": "Somebody", "aadObjectId": person}
            return teams.build_request(teams.invoke(reference, number, **{"from": sender}), token)

        try:
            async with httpx.AsyncClient(timeout=PATIENCE_S) as platform:

                async def call(request: WebhookRequest) -> httpx.Response:
                    url, headers = f"{server.url}/notify/webhooks/teams", dict(request.headers)
                    return await platform.post(url, headers=headers, content=request.body)

                with server.client(server.api_key) as client:
                    hitl = await asyncio.to_thread(server.open, client)
                    await microsoft.wait_until(lambda: bool(connector.messages), within=PATIENCE_S)
                    await wait_until_delivered(server, hitl)
                    (shown,) = on_teams.list_messages()
                    assert shown.labels == ("Confirm", "Do not do it")
                    assert connector.conversations[0]["members"] == [{"id": teams.PERSON}]
                    confirm, token = shown.references[0], teams.sign_token(**signed)

                    forged = teams.sign_token(key=teams.signing_key("key-2"), **signed)
                    refused = await call(build_press(confirm, 1, person=teams.PERSON, token=forged))
                    assert refused.status_code == 401
                    stranger = await call(build_press(confirm, 2, person=teams.TENANT, token=token))
                    assert "not allowed" in stranger.text
                    assert (await asyncio.to_thread(client.get, hitl["poll_url"])).json()[
                        "status"
                    ] == "pending"
                    press = build_press(confirm, 3, person=teams.PERSON, token=token)
                    for _ in range(2):  # Teams repeats itself, too
                        assert "recorded" in (await call(press)).text
                    poll = (await asyncio.to_thread(client.get, hitl["poll_url"])).json()
                assert (poll["status"], poll["responded_by"]) == ("completed", {"name": "Grace"})
                assert poll["submission_context"]["submitted_via"] == "teams_adaptive_card"
                await microsoft.wait_until(
                    lambda: on_teams.list_messages()[0].references == (), within=PATIENCE_S
                )
                assert "by Grace" in on_teams.list_messages()[0].text
        finally:
            await asyncio.to_thread(work.__exit__, None, None, None)
    assert not connector.problems
