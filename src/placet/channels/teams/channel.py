"""Teams: a bot sends the question to one conversation, and hears presses by its messaging endpoint."""

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
# Microsoft's words for what another try may well cure, under a status that says otherwise.
BUSY = frozenset({412, 429})
UPDATE_REFUSED = frozenset({404, 405, 410})


class TeamsChannel:
    """One conversation with one bot. `to` is the id of a channel or a chat, or of a person in the directory.

    Presses come to the bot's messaging endpoint only, each with a token that Microsoft signed for this bot.
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
            raise SettingsError("The ids of a Teams bot and of its tenant look like 8-4-4-4-12 hex digits.")
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
        """Send the question; to a person in the conversation that they and the bot have for themselves."""
        body = _build_activity(render.build_card(card), render.build_summary(card))
        return await self._send(await self._place(), body)

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Take the buttons away and say how it ended; in a new message where the old one cannot change."""
        said = render.build_summary(card, closure)
        body = {
            **_build_activity(render.build_closed_card(card, closure), said),
            "id": sent_message.message_id,
        }
        reply = await self._api.call(
            "PUT", _activities_path(sent_message.conversation_id, sent_message.message_id), body
        )
        if reply.is_ok:
            return
        if reply.status not in UPDATE_REFUSED:
            raise _build_refusal(reply)
        await self._send(
            sent_message.conversation_id, _build_activity(render.build_follow_up(card, closure), said)
        )

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Say it in the conversation, by name where others read along; for an answer that comes too late
        for the response to the press itself."""
        place = interaction.reply_to.get("conversation")
        if not place:
            raise ChannelRefused("Teams did not say where this button was pressed.")
        name = interaction.reply_to.get("name")
        said = render.build_reply(f"{name}: {text}" if name else text)
        body = {"type": "message", "text": said, "textFormat": "plain"}
        reply = await self._api.call("POST", _activities_path(place), body, max_wait_s=REPLY_MAX_WAIT_S)
        if not reply.is_ok:
            raise _build_refusal(reply)

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """The press in a call to the messaging endpoint, if Microsoft vouches for it."""
        activity = read_activity(request.body)
        if activity is None:
            raise SignatureInvalid("This call says nothing that its token could vouch for.")
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
        """Teams tells presses to a public address only."""
        raise SettingsError("Teams needs a public address for presses; without one, people use the link.")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()
        await self._keys_api.aclose()

    async def _place(self) -> str:
        if self._conversation is None:
            self._conversation = await self._personal_conversation()
        return self._conversation

    async def _personal_conversation(self) -> str:
        body = {
            "bot": {"id": self._app_id},
            "members": [{"id": self._to}],
            "isGroup": False,
            "tenantId": self._tenant_id,
            "channelData": {"tenant": {"id": self._tenant_id}},
        }
        return _parse_id(await self._api.call("POST", "/v3/conversations", body))

    async def _send(self, place: str, body: dict[str, Any]) -> SentMessage:
        message_id = _parse_id(await self._api.call("POST", _activities_path(place), body))
        return SentMessage(
            channel=self.name, conversation_id=place, message_id=message_id, sent_at=self._now()
        )


def from_environment(environ: Mapping[str, str]) -> TeamsChannel:
    """A channel from the PLACET_TEAMS_… variables; raises SettingsError naming those that are missing."""
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


def _activities_path(place: str, message_id: str | None = None) -> str:
    path = f"/v3/conversations/{quote(place, safe='')}/activities"
    return path if message_id is None else f"{path}/{quote(message_id, safe='')}"


def _build_activity(card: dict[str, Any], summary: str) -> dict[str, Any]:
    return {
        "type": "message",
        "summary": summary,
        "attachments": [{"contentType": CARD_TYPE, "content": card}],
    }


def _build_reply_response(text: str) -> bytes:
    """What the person who pressed is shown at once."""
    return msgspec.json.encode({"statusCode": 200, "type": MESSAGE_TYPE, "value": render.build_reply(text)})


def _parse_id(reply: PlatformReply) -> str:
    if not reply.is_ok:
        raise _build_refusal(reply)
    named = reply.body.get("id")
    if not isinstance(named, str) or not named:
        raise Unreachable("Teams' answer does not say what it made.")
    return named


def _build_refusal(reply: PlatformReply) -> ChannelRefused:
    error = reply.body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    said = quote_platform("Teams", code)
    if reply.status == 401:
        return ChannelRefused(f"Teams does not know this bot. {said}")
    if reply.status == 403:
        return ChannelRefused(f"The bot may not write there; install its app there first. {said}")
    if reply.status == 404:
        return ChannelRefused(f"There is no such conversation for this bot. {said}")
    return ChannelRefused(f"Teams does not take this. {said}")
