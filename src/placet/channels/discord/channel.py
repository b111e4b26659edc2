"""The Discord channel: a bot posts questions and receives interactions by webhook."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from placet.channels.discord import render
from placet.channels.discord.interactions import (
    MESSAGE,
    build_response,
    interaction_from_component,
    read_interaction,
)
from placet.channels.discord.request_verification import verify_request
from placet.channels.platform_api import PlatformApi, PlatformReply, Sleep, quote_platform
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult

API_URL = "https://discord.com/api/v10"
# Discord requires this form of User-Agent.
USER_AGENT = "DiscordBot (https://placet.example, 1)"
UNKNOWN_MESSAGE = 10008
# Discord accepts a follow-up only after it has received our response to the interaction.
RETRY_DELAYS_S = (0.5, 1.0, 1.5, 2.0)
TOKEN, CHANNEL, USER, KEY, API = (
    f"PLACET_DISCORD_{name}" for name in ("BOT_TOKEN", "CHANNEL_ID", "USER_ID", "PUBLIC_KEY", "API_URL")
)


class DiscordChannel:
    """One bot that writes to one channel or to one person.

    `public_key` is the application's key in hexadecimal; webhooks need it.
    """

    name = "discord"

    def __init__(
        self,
        *,
        token: str,
        channel_id: str | None = None,
        user_id: str | None = None,
        public_key: str | None = None,
        api_url: str = API_URL,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        for value, variable in ((channel_id, CHANNEL), (user_id, USER)):
            if value is not None and not (value.isascii() and value.isdigit()):
                raise SettingsError(f"{variable} must be a number; Discord shows it in developer mode.")
        if channel_id is None and user_id is None:
            raise SettingsError(f"Set {CHANNEL} or {USER} to say where questions go.")
        if not (token.isascii() and token.isprintable() and token.strip() == token and token):
            raise SettingsError(f"{TOKEN} is not the token of a Discord bot.")
        self._channel_id = channel_id
        self._user_id = user_id
        self._key = _parse_public_key(public_key) if public_key is not None else None
        self._sleep = sleep
        self._now = clock
        headers = {"Authorization": f"Bot {token}", "User-Agent": USER_AGENT}
        self._api = PlatformApi("Discord", api_url, headers=headers, sleep=sleep)

    async def send(self, card: Card) -> SentMessage:
        """Post the question to the channel or the person."""
        return await self._send(await self._resolve_channel_id(), render.build_message(card))

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Remove the buttons and add how the case closed; send a new message if the old one is gone."""
        path = f"/channels/{sent_message.conversation_id}/messages/{sent_message.message_id}"
        reply = await self._api.call("PATCH", path, render.build_closed_message(card, closure))
        if reply.is_ok:
            return
        if reply.body.get("code") != UNKNOWN_MESSAGE:
            raise _build_refusal(reply)
        await self._send(
            sent_message.conversation_id, render.build_follow_up(card, closure, sent_message.message_id)
        )

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Show a text only to the person; after fifteen minutes, reply in the channel instead."""
        body = render.build_reply(text)
        if await self._try_follow_up(interaction, body):
            return
        place, message_id = interaction.reply_to.get("channel_id"), interaction.reply_to.get("message_id")
        if place is not None and message_id is not None:
            await self._send(place, render.make_reply_to(body, message_id))

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Return the interaction in a signed request, and the response that Discord expects."""
        if self._key is None:
            raise SettingsError(f"Set {KEY} to the public key of your Discord application.")
        verify_request(request, self._key, self._now())
        received = read_interaction(request.body)
        interaction = interaction_from_component(received)
        body = msgspec.json.encode(build_response(received))
        if interaction is None:
            return WebhookResult(body=body)
        return WebhookResult(interactions=(interaction,), body=body, reply=_build_reply_response)

    def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Raise SettingsError: Discord reports interactions only by webhook."""
        raise SettingsError(
            "Discord reports button presses only to a public address; without one, people use the link."
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    async def _resolve_channel_id(self) -> str:
        """Return the channel id; for a person, open the direct messages once and cache their id."""
        if self._channel_id is None:
            reply = await self._api.call("POST", "/users/@me/channels", {"recipient_id": self._user_id})
            self._channel_id = _parse_id(reply)
        return self._channel_id

    async def _send(self, place: str, body: dict[str, Any]) -> SentMessage:
        message_id = _parse_id(
            await self._api.call("POST", f"/channels/{quote(place, safe='')}/messages", body)
        )
        return SentMessage(
            channel=self.name, conversation_id=place, message_id=message_id, sent_at=self._now()
        )

    async def _try_follow_up(self, interaction: Interaction, body: dict[str, Any]) -> bool:
        """Send a follow-up with the interaction's token; return whether Discord accepted it."""
        application = quote(interaction.reply_to.get("application_id", ""), safe="")
        token = quote(interaction.reply_to.get("token", ""), safe="")
        if not application or not token:
            return False
        for delay_s in (0.0, *RETRY_DELAYS_S):
            if delay_s:
                await self._sleep(delay_s)
            reply = await self._api.call(
                "POST",
                f"/webhooks/{application}/interaction",
                body,
                secret_path=f"/webhooks/{application}/{token}",
                max_wait_s=5.0,
            )
            if reply.is_ok:
                return True
        return False


def from_environment(environ: Mapping[str, str]) -> DiscordChannel:
    """Create the channel from PLACET_DISCORD_… variables; raise SettingsError if one is missing."""
    if not environ.get(TOKEN):
        raise SettingsError(f"Set {TOKEN}, and {CHANNEL} or {USER}, to send questions to Discord.")
    return DiscordChannel(
        token=environ[TOKEN],
        channel_id=environ.get(CHANNEL) or None,
        user_id=environ.get(USER) or None,
        public_key=environ.get(KEY) or None,
        api_url=environ.get(API) or API_URL,
    )


def _build_reply_response(text: str) -> bytes:
    """Return a webhook response that shows a text to the person."""
    return msgspec.json.encode({"type": MESSAGE, "data": render.build_reply(text)})


def _parse_public_key(text: str) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        raise SettingsError(
            f"{KEY} is not a public key. Copy the 64 hexadecimal digits that Discord shows."
        ) from None


def _parse_id(reply: PlatformReply) -> str:
    if not reply.is_ok:
        raise _build_refusal(reply)
    found = reply.body.get("id")
    if not (isinstance(found, str) and found.isascii() and found.isdigit()):
        raise Unreachable("Discord's response contains no id.")
    return found


def _build_refusal(reply: PlatformReply) -> ChannelRefused:
    if reply.status == 401:
        return ChannelRefused(f"Discord does not know this bot. Check {TOKEN}.")
    reason = quote_platform("Discord", reply.body.get("message"))
    if reply.status == 403:
        return ChannelRefused(f"The bot may not write there. {reason}")
    return ChannelRefused(f"Discord refused the message. {reason}")
