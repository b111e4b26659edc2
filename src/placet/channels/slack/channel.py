"""Slack: a bot posts the question to one place, and hears presses by webhook or by Socket Mode."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from placet.channels.calling import PlatformApi, Reply, Sleep, told_by
from placet.channels.environment import require
from placet.channels.slack import render
from placet.channels.slack.presses import check_signature, presses_of, read_form
from placet.channels.slack.sockets import SILENT_FOR_S, SocketMode
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Call, Card, Ended, Heard, Press, Ticket
from placet.protocol.addresses import LOOPBACK_HOSTS

API_URL = "https://slack.com/api"
REQUIRED = ("PLACET_SLACK_BOT_TOKEN", "PLACET_SLACK_CHANNEL")
ANSWER_PATIENCE_S = 2.0
NO_PREVIEW = {"unfurl_links": False, "unfurl_media": False}

_TOKEN = re.compile(r"xox[a-z]?[.-][A-Za-z0-9.%-]{1,500}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{1,500}")
# Slack's words for a failure of its own, under a status of 200.
TROUBLES = frozenset(
    {"fatal_error", "internal_error", "ratelimited", "rate_limited", "request_timeout", "service_unavailable"}
)
BAD_TOKENS = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
NOT_THERE = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
UNCHANGEABLE = frozenset({"cant_update_message", "edit_window_closed", "message_not_found"})


class SlackChannel:
    """One place in one workspace. `place` is the id of a channel, a conversation, or a person.

    `signing_secret` is the app's, for its webhook; `app_token` opens Socket Mode instead. Without either,
    nobody hears the buttons.
    """

    name = "slack"

    def __init__(
        self,
        *,
        token: str,
        place: str,
        signing_secret: str | None = None,
        app_token: str | None = None,
        api_url: str = API_URL,
        sleep: Sleep = asyncio.sleep,
        silent_for_s: float = SILENT_FOR_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise SettingsError("This is not the token of a Slack bot, which begins with xoxb-.")
        if app_token is not None and not _APP_TOKEN.fullmatch(app_token):
            raise SettingsError("This is not an app-level token of Slack, which begins with xapp-.")
        if signing_secret is not None and not signing_secret.strip():  # with it, anybody could sign
            raise SettingsError("The signing secret is empty; Slack shows it in the app's basic information.")
        self._place = place
        self._signing_secret = signing_secret
        self._now = clock
        self._sleep = sleep
        self._silent_for_s = silent_for_s
        self._api = PlatformApi("Slack", api_url, headers=_bearer(token), sleep=sleep)
        self._app_api = (
            PlatformApi("Slack", api_url, headers=_bearer(app_token), sleep=sleep) if app_token else None
        )

    async def send(self, card: Card) -> Ticket:
        """Post the question."""
        return await self._post(self._place, render.message(card))

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Take the buttons away and say how it ended; in its thread where the message cannot change."""
        place = {"channel": ticket.place, "ts": ticket.message_id}
        reply = await self._api.call("POST", "/chat.update", {**place, **render.settled_message(card, ended)})
        error = _error(reply)
        if error is None:
            return
        if error not in UNCHANGEABLE:
            raise _failure(error)
        thread = {} if error == "message_not_found" else {"thread_ts": ticket.message_id}
        await self._post(ticket.place, {**render.follow_up(card, ended), **thread})

    async def answer(self, press: Press, text: str) -> None:
        """Show a note that only whoever pressed can see."""
        body = {**press.reply_to, "text": render.answer(text)}
        error = _error(
            await self._api.call("POST", "/chat.postEphemeral", body, patience_s=ANSWER_PATIENCE_S)
        )
        if error is not None:
            raise _failure(error)

    async def hear(self, call: Call) -> Heard:
        """The presses in a webhook call that Slack signed."""
        if self._signing_secret is None:
            raise SettingsError("Set PLACET_SLACK_SIGNING_SECRET to the one of your app in Slack.")
        check_signature(call, self._signing_secret, self._now().timestamp())
        return Heard(presses=presses_of(read_form(call.body)))

    async def listen(self) -> AsyncIterator[Sequence[Press]]:
        """Presses by Socket Mode; raises SettingsError where it is not set up or switched off."""
        if self._app_api is None:
            raise SettingsError("Set PLACET_SLACK_APP_TOKEN to listen to Slack without a public address.")
        ticket = partial(_socket_url, self._app_api)
        sockets = SocketMode(ticket, sleep=self._sleep, silent_for_s=self._silent_for_s)
        async with aclosing(sockets.presses()) as listening:
            async for presses in listening:
                yield presses

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()
        if self._app_api is not None:
            await self._app_api.aclose()

    async def _post(self, place: str, body: dict[str, Any]) -> Ticket:
        reply = await self._api.call("POST", "/chat.postMessage", {"channel": place, **body, **NO_PREVIEW})
        error = _error(reply)
        if error is not None:
            raise _failure(error)
        posted_to, stamp = reply.body.get("channel"), reply.body.get("ts")
        if not isinstance(posted_to, str) or not isinstance(stamp, str):
            raise Unreachable("Slack's answer does not say which message it posted.")
        return Ticket(channel=self.name, place=posted_to, message_id=stamp, sent_at=self._now())


def from_environment(environ: Mapping[str, str]) -> SlackChannel:
    """A channel from the PLACET_SLACK_… variables; raises SettingsError naming those that are missing."""
    require(environ, REQUIRED, purpose="send questions to Slack")
    return SlackChannel(
        token=environ["PLACET_SLACK_BOT_TOKEN"],
        place=environ["PLACET_SLACK_CHANNEL"],
        signing_secret=environ.get("PLACET_SLACK_SIGNING_SECRET") or None,
        app_token=environ.get("PLACET_SLACK_APP_TOKEN") or None,
        api_url=environ.get("PLACET_SLACK_API_URL") or API_URL,
    )


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _socket_url(api: PlatformApi) -> str:
    """Where to connect this time; the address is a credential that counts once."""
    reply = await api.call("POST", "/apps.connections.open", {})
    error = _error(reply)
    if error is not None:
        raise _failure(error)
    url = reply.body.get("url")
    if not isinstance(url, str) or not _is_safe_socket(url):
        raise Unreachable("Slack's answer does not say where to connect safely.")
    return url


def _is_safe_socket(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "wss" or (parts.scheme == "ws" and parts.hostname in LOOPBACK_HOSTS)
    except ValueError:
        return False


def _error(reply: Reply) -> str | None:
    """Slack's word for what went wrong; raises Unreachable where that is Slack's own trouble."""
    if reply.is_ok and reply.body.get("ok") is True:
        return None
    error = reply.body.get("error")
    if not isinstance(error, str):
        raise Unreachable(f"Slack's answer says neither yes nor no (HTTP {reply.status}).")
    if error in TROUBLES:
        raise Unreachable(f"Slack has a problem of its own ({error}).")
    return error


def _failure(error: str) -> ChannelRefused:
    said = told_by("Slack", error)
    if error in BAD_TOKENS:
        return ChannelRefused(f"Slack does not know this token. {said}")
    if error in NOT_THERE:
        return ChannelRefused(f"The bot is not there; invite it to the channel. {said}")
    if error == "missing_scope":
        return ChannelRefused(f"The bot lacks a scope; it needs chat:write. {said}")
    return ChannelRefused(f"Slack does not take this. {said}")
