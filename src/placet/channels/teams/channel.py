"""Teams: a bot sends the question to one conversation, and hears presses by its messaging endpoint."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from placet.channels.calling import PlatformApi, Reply, Sleep, told_by
from placet.channels.environment import require
from placet.channels.teams import render
from placet.channels.teams.credentials import BotCredential
from placet.channels.teams.presses import press_of, read_activity
from placet.channels.teams.proofs import PublishedKeys, check_proof
from placet.errors import ChannelRefused, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Call, Card, Ended, Heard, Press, Ticket

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
ANSWER_PATIENCE_S = 2.0
ON_ITS_WAY = "Your answer is on its way."

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Microsoft's words for what another try may well cure, under a status that says otherwise.
BUSY = frozenset({412, 429})
UNCHANGEABLE = frozenset({404, 405, 410})


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
        credential = BotCredential(
            login_url=login_url, tenant_id=tenant_id, app_id=app_id, secret=app_secret, clock=clock
        )
        self._api = PlatformApi(
            "Teams",
            service_url,
            auth=credential,
            sleep=sleep,
            is_busy=lambda reply: reply.status in BUSY,
            break_s=1.0,
        )
        self._keys_api = PlatformApi("Microsoft", keys_url, sleep=sleep)
        self._keys = PublishedKeys(self._keys_api, keys_url, clock=clock)

    async def send(self, card: Card) -> Ticket:
        """Send the question; to a person in the conversation that they and the bot have for themselves."""
        body = _message(render.message(card), render.summary(card))
        return await self._send(await self._place(), body)

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Take the buttons away and say how it ended; in a new message where the old one cannot change."""
        said = render.summary(card, ended)
        body = {**_message(render.settled_message(card, ended), said), "id": ticket.message_id}
        reply = await self._api.call("PUT", _activities(ticket.place, ticket.message_id), body)
        if reply.is_ok:
            return
        if reply.status not in UNCHANGEABLE:
            raise _refusal(reply)
        await self._send(ticket.place, _message(render.follow_up(card, ended), said))

    async def answer(self, press: Press, text: str) -> None:
        """Say it in the conversation, by name where others read along; for an answer that comes too late
        for the response to the press itself."""
        place = press.reply_to.get("conversation")
        if not place:
            raise ChannelRefused("Teams did not say where this button was pressed.")
        name = press.reply_to.get("name")
        said = render.answer(f"{name}: {text}" if name else text)
        body = {"type": "message", "text": said, "textFormat": "plain"}
        reply = await self._api.call("POST", _activities(place), body, patience_s=ANSWER_PATIENCE_S)
        if not reply.is_ok:
            raise _refusal(reply)

    async def hear(self, call: Call) -> Heard:
        """The press in a call to the messaging endpoint, if Microsoft vouches for it."""
        activity = read_activity(call.body)
        if activity is None:
            raise SignatureInvalid("This call says nothing that its token could vouch for.")
        await check_proof(
            call.headers.get("authorization", ""),
            activity,
            self._keys,
            app_id=self._app_id,
            now=self._now(),
        )
        press = press_of(activity)
        if press is None:
            return Heard()
        return Heard(presses=(press,), body=_response(ON_ITS_WAY), reply=_response)

    def listen(self) -> AsyncIterator[Sequence[Press]]:
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
        return _id_of(await self._api.call("POST", "/v3/conversations", body))

    async def _send(self, place: str, body: dict[str, Any]) -> Ticket:
        message_id = _id_of(await self._api.call("POST", _activities(place), body))
        return Ticket(channel=self.name, place=place, message_id=message_id, sent_at=self._now())


def from_environment(environ: Mapping[str, str]) -> TeamsChannel:
    """A channel from the PLACET_TEAMS_… variables; raises SettingsError naming those that are missing."""
    require(environ, REQUIRED, purpose="send questions to Teams")
    return TeamsChannel(
        app_id=environ["PLACET_TEAMS_APP_ID"],
        app_secret=environ["PLACET_TEAMS_APP_SECRET"],
        tenant_id=environ["PLACET_TEAMS_TENANT_ID"],
        to=environ["PLACET_TEAMS_TO"],
        service_url=environ.get("PLACET_TEAMS_SERVICE_URL") or SERVICE_URL,
        login_url=environ.get("PLACET_TEAMS_LOGIN_URL") or LOGIN_URL,
        keys_url=environ.get("PLACET_TEAMS_KEYS_URL") or KEYS_URL,
    )


def _activities(place: str, message_id: str | None = None) -> str:
    path = f"/v3/conversations/{quote(place, safe='')}/activities"
    return path if message_id is None else f"{path}/{quote(message_id, safe='')}"


def _message(card: dict[str, Any], summary: str) -> dict[str, Any]:
    return {
        "type": "message",
        "summary": summary,
        "attachments": [{"contentType": CARD_TYPE, "content": card}],
    }


def _response(text: str) -> bytes:
    """What the person who pressed is shown at once."""
    return msgspec.json.encode({"statusCode": 200, "type": MESSAGE_TYPE, "value": render.answer(text)})


def _id_of(reply: Reply) -> str:
    if not reply.is_ok:
        raise _refusal(reply)
    named = reply.body.get("id")
    if not isinstance(named, str) or not named:
        raise Unreachable("Teams' answer does not say what it made.")
    return named


def _refusal(reply: Reply) -> ChannelRefused:
    error = reply.body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    said = told_by("Teams", code)
    if reply.status == 401:
        return ChannelRefused(f"Teams does not know this bot. {said}")
    if reply.status == 403:
        return ChannelRefused(f"The bot may not write there; install its app there first. {said}")
    if reply.status == 404:
        return ChannelRefused(f"There is no such conversation for this bot. {said}")
    return ChannelRefused(f"Teams does not take this. {said}")
