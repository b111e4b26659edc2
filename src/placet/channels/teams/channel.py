"""The Teams channel: a bot sends questions and receives interactions at its messaging endpoint."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from placet.channels.environment import require_variables
from placet.channels.platform_api import PlatformApi, PlatformReply, Sleep, quote_platform
from placet.channels.teams import render
from placet.channels.teams.bot_token import TeamsBotAuth
from placet.channels.teams.interactions import interaction_from_activity, read_activity
from placet.channels.teams.request_verification import MicrosoftKeys, verify_request
from placet.errors import ChannelRefused, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult

SERVICE_URL = "https://smba.trafficmanager.net/teams"
LOGIN_URL = "https://login.microsoftonline.com"
KEYS_URL = "https://login.botframework.com"
REQUIRED = (
    "PLACET_TEAMS_APP_ID",
    "PLACET_TEAMS_APP_SECRET",
    "PLACET_TEAMS_TENANT_ID",
    "PLACET_TEAMS_TO",
)
CARD_TYPE = "application/vnd.microsoft.card.adaptive"
MESSAGE_TYPE = "application/vnd.microsoft.activity.message"
REPLY_MAX_WAIT_S = 2.0
ON_ITS_WAY = "Your answer is on its way."

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Statuses that are worth a retry.
BUSY = frozenset({412, 429})
UPDATE_REFUSED = frozenset({404, 405, 410})


class TeamsChannel:
    """One bot in one conversation. `to` is the id of a channel or a chat, or of a person in the directory.

    Interactions arrive only at the bot's messaging endpoint, each with a token that Microsoft signed.
    """

    name = "teams"

    def __init__(
        self,
        *,
        app_id: str,
        app_secret: str,
        tenant_id: str,
        to: str,
        service_url: str = SERVICE_URL,
        login_url: str = LOGIN_URL,
        keys_url: str = KEYS_URL,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not _UUID.fullmatch(app_id) or not _UUID.fullmatch(tenant_id):
            raise SettingsError("PLACET_TEAMS_APP_ID and PLACET_TEAMS_TENANT_ID must be UUIDs.")
        self._app_id = app_id
        self._tenant_id = tenant_id
        self._to = to
        self._conversation = None if _UUID.fullmatch(to) else to
        self._now = clock
        credential = TeamsBotAuth(
            login_url=login_url, tenant_id=tenant_id, app_id=app_id, secret=app_secret, clock=clock
        )
        self._api = PlatformApi(
            "Teams",
            service_url,
            auth=credential,
            sleep=sleep,
            is_busy=lambda reply: reply.status in BUSY,
            busy_delay_s=1.0,
        )
        self._keys_api = PlatformApi("Microsoft", keys_url, sleep=sleep)
        self._keys = MicrosoftKeys(self._keys_api, keys_url, clock=clock)

    async def send(self, card: Card) -> SentMessage:
        """Send the question; for a person, in their personal conversation with the bot."""
        body = _build_activity(render.build_card(card), render.build_summary(card))
        return await self._send(await self._resolve_conversation(), body)

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Remove the buttons and add how the case closed; send a new message if editing fails."""
        summary = render.build_summary(card, closure)
        body = {
            **_build_activity(render.build_closed_card(card, closure), summary),
            "id": sent_message.message_id,
        }
        reply = await self._api.call(
            "PUT", _build_activities_path(sent_message.conversation_id, sent_message.message_id), body
        )
        if reply.is_ok:
            return
        if reply.status not in UPDATE_REFUSED:
            raise _build_refusal(reply)
        await self._send(
            sent_message.conversation_id, _build_activity(render.build_follow_up(card, closure), summary)
        )

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Post a reply to the conversation, addressed by name in a group.

        Used when the reply comes too late for the response to the webhook request.
        """
        place = interaction.reply_to.get("conversation")
        if not place:
            raise ChannelRefused("The interaction does not name its conversation.")
        name = interaction.reply_to.get("name")
        summary = render.build_reply(f"{name}: {text}" if name else text)
        body = {"type": "message", "text": summary, "textFormat": "plain"}
        reply = await self._api.call("POST", _build_activities_path(place), body, max_wait_s=REPLY_MAX_WAIT_S)
        if not reply.is_ok:
            raise _build_refusal(reply)

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Return the interaction in a request that Microsoft signed."""
        activity = read_activity(request.body)
        if activity is None:
            raise SignatureInvalid("The request body is not an activity.")
        await verify_request(
            request.headers.get("authorization", ""),
            activity,
            self._keys,
            app_id=self._app_id,
            now=self._now(),
        )
        interaction = interaction_from_activity(activity)
        if interaction is None:
            return WebhookResult()
        return WebhookResult(
            interactions=(interaction,), body=_build_reply_response(ON_ITS_WAY), reply=_build_reply_response
        )

    def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Raise SettingsError: Teams reports interactions only by webhook."""
        raise SettingsError(
            "Teams reports button presses only to a public address; without one, people use the link."
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()
        await self._keys_api.aclose()

    async def _resolve_conversation(self) -> str:
        if self._conversation is None:
            self._conversation = await self._open_personal_conversation()
        return self._conversation

    async def _open_personal_conversation(self) -> str:
        body = {
            "bot": {"id": self._app_id},
            "members": [{"id": self._to}],
            "isGroup": False,
            "tenantId": self._tenant_id,
            "channelData": {"tenant": {"id": self._tenant_id}},
        }
        return _parse_id(await self._api.call("POST", "/v3/conversations", body))

    async def _send(self, place: str, body: dict[str, Any]) -> SentMessage:
        message_id = _parse_id(await self._api.call("POST", _build_activities_path(place), body))
        return SentMessage(
            channel=self.name, conversation_id=place, message_id=message_id, sent_at=self._now()
        )


def from_environment(environ: Mapping[str, str]) -> TeamsChannel:
    """Create the channel from PLACET_TEAMS_… variables; raise SettingsError if one is missing."""
    require_variables(environ, REQUIRED, purpose="send questions to Teams")
    return TeamsChannel(
        app_id=environ["PLACET_TEAMS_APP_ID"],
        app_secret=environ["PLACET_TEAMS_APP_SECRET"],
        tenant_id=environ["PLACET_TEAMS_TENANT_ID"],
        to=environ["PLACET_TEAMS_TO"],
        service_url=environ.get("PLACET_TEAMS_SERVICE_URL") or SERVICE_URL,
        login_url=environ.get("PLACET_TEAMS_LOGIN_URL") or LOGIN_URL,
        keys_url=environ.get("PLACET_TEAMS_KEYS_URL") or KEYS_URL,
    )


def _build_activities_path(place: str, message_id: str | None = None) -> str:
    path = f"/v3/conversations/{quote(place, safe='')}/activities"
    return path if message_id is None else f"{path}/{quote(message_id, safe='')}"


def _build_activity(card: dict[str, Any], summary: str) -> dict[str, Any]:
    return {
        "type": "message",
        "summary": summary,
        "attachments": [{"contentType": CARD_TYPE, "content": card}],
    }


def _build_reply_response(text: str) -> bytes:
    """Return a webhook response that shows a text to the person at once."""
    return msgspec.json.encode({"statusCode": 200, "type": MESSAGE_TYPE, "value": render.build_reply(text)})


def _parse_id(reply: PlatformReply) -> str:
    if not reply.is_ok:
        raise _build_refusal(reply)
    named = reply.body.get("id")
    if not isinstance(named, str) or not named:
        raise Unreachable("Teams' response contains no id.")
    return named


def _build_refusal(reply: PlatformReply) -> ChannelRefused:
    error = reply.body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    reason = quote_platform("Teams", code)
    if reply.status == 401:
        return ChannelRefused(f"Teams does not know this bot. {reason}")
    if reply.status == 403:
        return ChannelRefused(f"The bot may not write there. Install its app there first. {reason}")
    if reply.status == 404:
        return ChannelRefused(f"The conversation does not exist for this bot. {reason}")
    return ChannelRefused(f"Teams refused the message. {reason}")
