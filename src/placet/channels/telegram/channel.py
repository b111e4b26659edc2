"""The Telegram channel: a bot sends questions and receives interactions by webhook or long polling."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.channels.environment import require_variables
from placet.channels.platform_api import (
    PlatformApi,
    PlatformReply,
    Sleep,
    calculate_backoff_s,
    quote_platform,
)
from placet.channels.telegram import render
from placet.channels.telegram.interactions import (
    TelegramUpdate,
    convert_update,
    decode_update,
    interaction_from_update,
)
from placet.channels.telegram.request_verification import verify_request
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult

API_URL = "https://api.telegram.org"
POLL_TIMEOUT_S = 50
MAX_UPDATES = 25
"""Each update contains its whole message, up to 30 KB; more would exceed the response size limit."""
WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
REQUIRED = ("PLACET_TELEGRAM_BOT_TOKEN", "PLACET_TELEGRAM_CHAT_ID")
MAX_TOAST_LENGTH = 60
"""A longer reply is shown as a dialog."""

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,200}")
# Telegram distinguishes these errors only by their description.
NOT_MODIFIED = "message is not modified"
QUERY_EXPIRED = ("query is too old", "query_id_invalid", "query id is invalid")
EDIT_REFUSED = (
    "message can't be edited",
    "message to edit not found",
    "message_id_invalid",
    "message not found",
)


class TelegramChannel:
    """One bot in one chat. `chat_id` is the id of a person or a group, or a channel's `@name`.

    `webhook_secret` is the secret given to setWebhook; without it, interactions arrive by `listen` only.
    """

    name = "telegram"

    def __init__(
        self,
        *,
        token: str,
        chat_id: str,
        webhook_secret: str | None = None,
        api_url: str = API_URL,
        poll_timeout_s: int = POLL_TIMEOUT_S,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise SettingsError(
                "PLACET_TELEGRAM_BOT_TOKEN is not the token of a Telegram bot. Get one from @BotFather."
            )
        if webhook_secret is not None and not WEBHOOK_SECRET.fullmatch(webhook_secret):
            raise SettingsError(
                "PLACET_TELEGRAM_WEBHOOK_SECRET must be 1 to 256 characters of A-Z, a-z, 0-9, _ and -."
            )
        self._token = token
        self._chat_id = chat_id
        self._webhook_secret = webhook_secret
        self._poll_timeout_s = poll_timeout_s
        self._sleep = sleep
        self._now = clock
        self._api = PlatformApi("Telegram", api_url, sleep=sleep)

    async def send(self, card: Card) -> SentMessage:
        """Send the question; follow a group that became a supergroup to its new id."""
        return await self._send(render.build_message(card))

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Remove the buttons and add how the case closed; send a new message if editing fails."""
        place = {"chat_id": sent_message.conversation_id, "message_id": int(sent_message.message_id)}
        reply = await self._call("editMessageText", {**place, **render.build_closed_message(card, closure)})
        if reply.is_ok or _mentions(reply, NOT_MODIFIED):
            return
        if not _mentions(reply, *EDIT_REFUSED):
            raise _build_refusal(reply)
        await self._send(
            render.build_follow_up(card, closure, int(sent_message.message_id)),
            chat_id=sent_message.conversation_id,
        )

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Show a notice to the person who pressed the button; Telegram discards it after some minutes."""
        shown = render.build_reply(text)
        query_id = interaction.reply_to.get("callback_query_id", interaction.id)
        body = {"callback_query_id": query_id, "text": shown, "show_alert": len(shown) > MAX_TOAST_LENGTH}
        reply = await self._call("answerCallbackQuery", body, max_wait_s=2.0)
        if not reply.is_ok and not _mentions(reply, *QUERY_EXPIRED):
            raise _build_refusal(reply)

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Return the interaction in a webhook request that carries our secret."""
        if self._webhook_secret is None:
            raise SettingsError(
                "Set PLACET_TELEGRAM_WEBHOOK_SECRET to the secret_token that you gave to setWebhook."
            )
        verify_request(request, self._webhook_secret)
        interaction = interaction_from_update(decode_update(request.body))
        return WebhookResult(interactions=(interaction,) if interaction is not None else ())

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Yield interactions from long polling; requesting the next ones confirms the previous ones.

        After a stop in between, Telegram delivers the same interactions again. Raises SettingsError while
        a webhook is set, ChannelRefused for a wrong token; retries on any other failure.
        """
        offset: int | None = None
        failures = 0
        while True:
            try:
                updates = await self._fetch_updates(offset)
            except Unreachable:
                failures += 1
                await self._sleep(calculate_backoff_s(failures))
                continue
            failures = 0
            interactions = tuple(filter(None, map(interaction_from_update, updates)))
            if interactions:
                yield interactions
            if updates:
                offset = max(update.update_id for update in updates) + 1

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    async def _send(self, body: dict[str, Any], *, chat_id: str | None = None) -> SentMessage:
        place = chat_id or self._chat_id
        reply = await self._call("sendMessage", {"chat_id": place, **body})
        if not reply.is_ok and (moved := _find_new_chat_id(reply)):
            place = moved
            reply = await self._call("sendMessage", {"chat_id": place, **body})
        result = reply.body.get("result")
        message_id = result.get("message_id") if isinstance(result, dict) else None
        if not reply.is_ok:
            raise _build_refusal(reply)
        if not isinstance(message_id, int):
            raise Unreachable("Telegram's response does not name the message.")
        return SentMessage(
            channel=self.name, conversation_id=place, message_id=str(message_id), sent_at=self._now()
        )

    async def _fetch_updates(self, offset: int | None) -> list[TelegramUpdate]:
        after = {"offset": offset} if offset is not None else {}
        wanted = {"allowed_updates": ["callback_query"], "limit": MAX_UPDATES}
        body = {"timeout": self._poll_timeout_s, **wanted, **after}
        reply = await self._call("getUpdates", body, timeout_s=self._poll_timeout_s + 15.0)
        if reply.status == 409:
            if _mentions(reply, "webhook"):
                raise SettingsError("This bot has a webhook. Delete it (deleteWebhook) to listen instead.")
            raise Unreachable("Another program is polling this bot.")
        if not reply.is_ok:
            raise _build_refusal(reply)
        result = reply.body.get("result")
        listed = result if isinstance(result, list) else []
        return [update for update in map(convert_update, listed) if update is not None]

    async def _call(self, method: str, body: dict[str, Any], **limits: float) -> PlatformReply:
        return await self._api.call(
            "POST", f"/bot/{method}", body, secret_path=f"/bot{self._token}/{method}", **limits
        )


def from_environment(environ: Mapping[str, str]) -> TelegramChannel:
    """Create the channel from PLACET_TELEGRAM_… variables; raise SettingsError if one is missing."""
    require_variables(environ, REQUIRED, purpose="send questions to Telegram")
    return TelegramChannel(
        token=environ["PLACET_TELEGRAM_BOT_TOKEN"],
        chat_id=environ["PLACET_TELEGRAM_CHAT_ID"],
        webhook_secret=environ.get("PLACET_TELEGRAM_WEBHOOK_SECRET") or None,
        api_url=environ.get("PLACET_TELEGRAM_API_URL") or API_URL,
    )


def _mentions(reply: PlatformReply, *words: str) -> bool:
    description = str(reply.body.get("description", "")).lower()
    return any(word in description for word in words)


def _find_new_chat_id(reply: PlatformReply) -> str | None:
    parameters = reply.body.get("parameters")
    moved = parameters.get("migrate_to_chat_id") if isinstance(parameters, dict) else None
    return str(moved) if isinstance(moved, int) else None


def _build_refusal(reply: PlatformReply) -> ChannelRefused:
    if reply.status in (401, 404):
        return ChannelRefused("Telegram does not know this bot. Check PLACET_TELEGRAM_BOT_TOKEN.")
    reason = quote_platform("Telegram", reply.body.get("description"))
    if reply.status == 403:
        return ChannelRefused(f"The bot may not write to this chat. {reason}")
    return ChannelRefused(f"Telegram refused the message. {reason}")
