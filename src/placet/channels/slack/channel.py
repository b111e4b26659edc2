"""The Slack channel: a bot posts questions and receives interactions by webhook or Socket Mode."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from placet.channels.environment import require_variables
from placet.channels.platform_api import PlatformApi, PlatformReply, Sleep, quote_platform
from placet.channels.slack import render
from placet.channels.slack.interactions import interactions_from_payload, read_form
from placet.channels.slack.request_verification import verify_request
from placet.channels.slack.socket_mode import IDLE_TIMEOUT_S, SocketMode
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult
from placet.protocol.addresses import LOOPBACK_HOSTS

API_URL = "https://slack.com/api"
REQUIRED = ("PLACET_SLACK_BOT_TOKEN", "PLACET_SLACK_CHANNEL")
REPLY_MAX_WAIT_S = 2.0
NO_PREVIEW = {"unfurl_links": False, "unfurl_media": False}

_TOKEN = re.compile(r"xox[a-z]?[.-][A-Za-z0-9.%-]{1,500}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{1,500}")
# Error codes of failures on Slack's side; the HTTP status is 200.
SLACK_FAILURES = frozenset(
    {"fatal_error", "internal_error", "ratelimited", "rate_limited", "request_timeout", "service_unavailable"}
)
TOKEN_ERRORS = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
MEMBERSHIP_ERRORS = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
UPDATE_ERRORS = frozenset({"cant_update_message", "edit_window_closed", "message_not_found"})


class SlackChannel:
    """One conversation in one workspace: `conversation_id` is the id of a channel, a chat or a person.

    `signing_secret` verifies webhooks; `app_token` opens Socket Mode instead. Without either, buttons do
    nothing.
    """

    name = "slack"

    def __init__(
        self,
        *,
        token: str,
        conversation_id: str,
        signing_secret: str | None = None,
        app_token: str | None = None,
        api_url: str = API_URL,
        sleep: Sleep = asyncio.sleep,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise SettingsError(
                "PLACET_SLACK_BOT_TOKEN is not the token of a Slack bot, which begins with xoxb-."
            )
        if app_token is not None and not _APP_TOKEN.fullmatch(app_token):
            raise SettingsError("PLACET_SLACK_APP_TOKEN is not an app-level token, which begins with xapp-.")
        if signing_secret is not None and not signing_secret.strip():  # anybody could sign with it
            raise SettingsError(
                "PLACET_SLACK_SIGNING_SECRET is empty. Copy it from the app's Basic Information."
            )
        self._conversation_id = conversation_id
        self._signing_secret = signing_secret
        self._now = clock
        self._sleep = sleep
        self._idle_timeout_s = idle_timeout_s
        self._api = PlatformApi("Slack", api_url, headers=_build_bearer_header(token), sleep=sleep)
        self._app_api = (
            PlatformApi("Slack", api_url, headers=_build_bearer_header(app_token), sleep=sleep)
            if app_token
            else None
        )

    async def send(self, card: Card) -> SentMessage:
        """Post the question."""
        return await self._post(self._conversation_id, render.build_message(card))

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Remove the buttons and add how the case closed; reply in the thread if editing fails."""
        place = {"channel": sent_message.conversation_id, "ts": sent_message.message_id}
        reply = await self._api.call(
            "POST", "/chat.update", {**place, **render.build_closed_message(card, closure)}
        )
        error = _parse_error(reply)
        if error is None:
            return
        if error not in UPDATE_ERRORS:
            raise _build_refusal(error)
        thread = {} if error == "message_not_found" else {"thread_ts": sent_message.message_id}
        await self._post(sent_message.conversation_id, {**render.build_follow_up(card, closure), **thread})

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Show a text that only the person who pressed the button can see."""
        body = {**interaction.reply_to, "text": render.build_reply(text)}
        error = _parse_error(
            await self._api.call("POST", "/chat.postEphemeral", body, max_wait_s=REPLY_MAX_WAIT_S)
        )
        if error is not None:
            raise _build_refusal(error)

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Return the interactions in a signed webhook request."""
        if self._signing_secret is None:
            raise SettingsError("Set PLACET_SLACK_SIGNING_SECRET to the signing secret of your Slack app.")
        verify_request(request, self._signing_secret, self._now().timestamp())
        return WebhookResult(interactions=interactions_from_payload(read_form(request.body)))

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Yield interactions from Socket Mode; raise SettingsError if it is not configured or disabled."""
        if self._app_api is None:
            raise SettingsError("Set PLACET_SLACK_APP_TOKEN to listen to Slack without a public address.")
        open_url = partial(_open_connection_url, self._app_api)
        sockets = SocketMode(open_url, sleep=self._sleep, idle_timeout_s=self._idle_timeout_s)
        async with aclosing(sockets.interactions()) as listening:
            async for interactions in listening:
                yield interactions

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()
        if self._app_api is not None:
            await self._app_api.aclose()

    async def _post(self, place: str, body: dict[str, Any]) -> SentMessage:
        reply = await self._api.call("POST", "/chat.postMessage", {"channel": place, **body, **NO_PREVIEW})
        error = _parse_error(reply)
        if error is not None:
            raise _build_refusal(error)
        posted_to, stamp = reply.body.get("channel"), reply.body.get("ts")
        if not isinstance(posted_to, str) or not isinstance(stamp, str):
            raise Unreachable("Slack's response does not name the message.")
        return SentMessage(
            channel=self.name, conversation_id=posted_to, message_id=stamp, sent_at=self._now()
        )


def from_environment(environ: Mapping[str, str]) -> SlackChannel:
    """Create the channel from PLACET_SLACK_… variables; raise SettingsError if one is missing."""
    require_variables(environ, REQUIRED, purpose="send questions to Slack")
    return SlackChannel(
        token=environ["PLACET_SLACK_BOT_TOKEN"],
        conversation_id=environ["PLACET_SLACK_CHANNEL"],
        signing_secret=environ.get("PLACET_SLACK_SIGNING_SECRET") or None,
        app_token=environ.get("PLACET_SLACK_APP_TOKEN") or None,
        api_url=environ.get("PLACET_SLACK_API_URL") or API_URL,
    )


def _build_bearer_header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _open_connection_url(api: PlatformApi) -> str:
    """Return the URL of the next Socket Mode connection; it is a credential that works once."""
    reply = await api.call("POST", "/apps.connections.open", {})
    error = _parse_error(reply)
    if error is not None:
        raise _build_refusal(error)
    url = reply.body.get("url")
    if not isinstance(url, str) or not _is_safe_socket(url):
        raise Unreachable("Slack's response contains no secure URL to connect to.")
    return url


def _is_safe_socket(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "wss" or (parts.scheme == "ws" and parts.hostname in LOOPBACK_HOSTS)
    except ValueError:
        return False


def _parse_error(reply: PlatformReply) -> str | None:
    """Return Slack's error code, or None; raise Unreachable if the failure is on Slack's side."""
    if reply.is_ok and reply.body.get("ok") is True:
        return None
    error = reply.body.get("error")
    if not isinstance(error, str):
        raise Unreachable(f"Slack's response is not understood (HTTP {reply.status}).")
    if error in SLACK_FAILURES:
        raise Unreachable(f"Slack failed ({error}). Try again later.")
    return error


def _build_refusal(error: str) -> ChannelRefused:
    reason = quote_platform("Slack", error)
    if error in TOKEN_ERRORS:
        return ChannelRefused(f"Slack does not accept this token. {reason}")
    if error in MEMBERSHIP_ERRORS:
        return ChannelRefused(f"The bot is not in the conversation. Invite it to the channel. {reason}")
    if error == "missing_scope":
        return ChannelRefused(f"The bot lacks the scope chat:write. {reason}")
    return ChannelRefused(f"Slack refused the message. {reason}")
