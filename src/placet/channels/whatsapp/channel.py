"""WhatsApp: a business number sends the question to one person, and hears presses by webhook.

Messages cannot be changed, and a person who has not written for 24 hours can be reached by a template alone.
WhatsApp often says so only afterwards, by webhook: the template follows then.
"""

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.channels.calling import PlatformApi, Reply, Sleep, told_by
from placet.channels.environment import require
from placet.channels.whatsapp import render
from placet.channels.whatsapp.presses import Status, presses_of, read_values, statuses_of
from placet.channels.whatsapp.render import Message
from placet.errors import ChannelRefused, PlacetError, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Call, Card, Ended, Heard, Press, Ticket

API_URL = "https://graph.facebook.com"
API_VERSION = "v24.0"
SIGNATURE_HEADER = "x-hub-signature-256"
BREAK_S = 2.0
MOST_UNCONFIRMED = 1_000
REQUIRED = (
    "PLACET_WHATSAPP_ACCESS_TOKEN",
    "PLACET_WHATSAPP_PHONE_NUMBER_ID",
    "PLACET_WHATSAPP_TO",
)
NO_TEMPLATE = (
    "WhatsApp takes free messages within 24 hours after a person wrote only; "
    "set PLACET_WHATSAPP_TEMPLATE to a template for all other times."
)
WINDOW_CLOSED = frozenset({131047, 470})
"""More than 24 hours since the person last wrote: only a template is delivered."""
BUSY = frozenset({4, 80007, 130429, 131048, 131056})
"""Too many calls, messages, or messages to one person."""
# What WhatsApp refuses most often, and what helps.
REASONS: Mapping[int, str] = {
    190: "WhatsApp does not know this access token, or it has expired; look at PLACET_WHATSAPP_ACCESS_TOKEN.",
    131026: "WhatsApp cannot reach this person; look at PLACET_WHATSAPP_TO.",
    131030: "A test number writes to registered people only; add this one in the app's settings.",
    132000: "The template does not have the three parameters that Placet fills in.",
    132001: "There is no approved template of this name and language; look at PLACET_WHATSAPP_TEMPLATE.",
}

_CHALLENGE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_NUMBER = re.compile(r"[0-9]{1,64}")
_PERSON = re.compile(r"[0-9]{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,128}")
_VERSION = re.compile(r"v[0-9]{1,3}\.[0-9]{1,2}")

log = logging.getLogger("placet.channels.whatsapp")


class WhatsAppChannel:
    """One person, written to by one business number.

    `to` is a phone number with its country code. `app_secret` and `verify_token` are the webhook's; without
    them nothing is heard, and questions go by the template at once if there is one: nobody would learn that
    a free message did not arrive.
    """

    name = "whatsapp"

    def __init__(
        self,
        *,
        access_token: str,
        phone_number_id: str,
        to: str,
        app_secret: str | None = None,
        verify_token: str | None = None,
        template: str | None = None,
        template_language: str = "en",
        api_url: str = API_URL,
        api_version: str = API_VERSION,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not access_token.isascii() or not access_token.isprintable() or " " in access_token:
            raise SettingsError("The access token of WhatsApp is one line without spaces.")
        if not _NUMBER.fullmatch(phone_number_id):
            raise SettingsError("WhatsApp's phone number id has digits only; it is not the number itself.")
        if not _VERSION.fullmatch(api_version):
            raise SettingsError("A version of WhatsApp's API looks like v24.0.")
        self._to = _person(to)
        self._phone_number_id = phone_number_id
        self._app_secret = app_secret
        self._verify_token = verify_token
        self._template = template
        self._language = template_language
        self._path = f"/{api_version}/{phone_number_id}/messages"
        self._now = clock
        self._instead: dict[str, Message] = {}
        self._replaced: dict[str, str] = {}
        self._failed: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._api = PlatformApi(
            "WhatsApp",
            api_url,
            headers={"Authorization": f"Bearer {access_token}"},
            sleep=sleep,
            is_busy=lambda reply: reply.status == 429 or _code(reply) in BUSY,
            break_s=BREAK_S,
        )

    async def send(self, card: Card) -> Ticket:
        """Send the question, by the template where nothing else gets through."""
        free = {"to": self._to, **render.question(card)}
        message_id = await self._deliver(free, self._by_template(self._to, render.template_question, card))
        return Ticket(channel=self.name, place=self._to, message_id=message_id, sent_at=self._now())

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Reply to the question with how it ended; its buttons stay, and answer that it is closed."""
        await self._under_way()
        context = {"message_id": self._replaced.get(ticket.message_id, ticket.message_id)}
        free = {"to": ticket.place, "context": context, **render.follow_up(card, ended)}
        await self._deliver(free, self._by_template(ticket.place, render.template_follow_up, card, ended))

    async def answer(self, press: Press, text: str) -> None:
        """Reply to the press; whoever pressed has just written, so that no template is needed."""
        context = {"message_id": press.reply_to.get("message_id", press.id)}
        to = press.reply_to.get("to", press.presser.user_id)
        await self._post({"to": to, "context": context, **render.answer(text)})

    async def hear(self, call: Call) -> Heard:
        """The presses in a signed notification; and WhatsApp's question whether this webhook is ours."""
        if call.method == "GET":
            return self._challenged(call)
        self._check_signature(call)
        values = read_values(call.body, phone_number_id=self._phone_number_id)
        for value in values:
            for status in statuses_of(value):
                self._take_status(status)
        return Heard(presses=tuple(press for value in values for press in presses_of(value)))

    async def listen(self) -> AsyncIterator[Sequence[Press]]:
        """WhatsApp calls webhooks only: raises SettingsError."""
        raise SettingsError("WhatsApp tells about presses by webhook only, which needs a public address.")
        yield ()

    async def aclose(self) -> None:
        """Finish what is on its way, and close the connections."""
        await self._under_way()
        await self._api.aclose()

    # Sending

    def _by_template(self, to: str, write: Callable[..., Message], *parts: Card | Ended) -> Message | None:
        if self._template is None:
            return None
        try:
            return {"to": to, **write(*parts, name=self._template, language=self._language)}
        except ChannelRefused:  # too long for a template: then within 24 hours or not at all
            return None

    async def _deliver(self, free: Message, by_template: Message | None) -> str:
        if by_template is not None and self._app_secret is None:
            return await self._post(by_template)
        try:
            message_id = await self._post(free)
        except _WindowClosed:
            if by_template is None:
                raise ChannelRefused(NO_TEMPLATE) from None
            return await self._post(by_template)
        if by_template is not None and self._failed.pop(message_id, False):
            return await self._post(by_template)
        if by_template is not None:
            _keep(self._instead, message_id, by_template)
        return message_id

    async def _post(self, message: Message) -> str:
        reply = await self._api.call("POST", self._path, _addressed(message))
        if not reply.is_ok:
            raise _refusal(reply)
        try:
            return str(reply.body["messages"][0]["id"])
        except (LookupError, TypeError):
            raise Unreachable("WhatsApp's answer does not say which message it sent.") from None

    # Hearing

    def _challenged(self, call: Call) -> Heard:
        if not self._verify_token:
            raise SettingsError(
                "Set PLACET_WHATSAPP_VERIFY_TOKEN to what you gave to the webhook's settings."
            )
        given, challenge = call.query.get("hub.verify_token", ""), call.query.get("hub.challenge", "")
        if call.query.get("hub.mode") != "subscribe" or not _same(given, self._verify_token):
            raise SignatureInvalid("This call does not carry the verify token of the webhook.")
        if not _CHALLENGE.fullmatch(challenge):
            raise SignatureInvalid("This is no challenge of WhatsApp's.")
        return Heard(body=challenge.encode(), content_type="text/plain")

    def _check_signature(self, call: Call) -> None:
        if not self._app_secret:
            raise SettingsError("Set PLACET_WHATSAPP_APP_SECRET to the secret in your app's basic settings.")
        expected = hmac.new(self._app_secret.encode(), call.body, hashlib.sha256).hexdigest()
        if not _same(call.headers.get(SIGNATURE_HEADER, ""), f"sha256={expected}"):
            raise SignatureInvalid("WhatsApp did not sign this call.")

    def _take_status(self, status: Status) -> None:
        """A message that arrived needs no other; one that was too late gets its template, once."""
        if status.status not in ("failed", "delivered", "read"):
            return
        by_template = self._instead.pop(status.id, None)
        if status.status != "failed" or status.id in self._replaced:
            return
        if not any(failure.code in WINDOW_CLOSED for failure in status.errors):
            said = told_by("WhatsApp", status.errors[0].title if status.errors else "")
            log.warning("a message did not arrive. %s", said)
        elif by_template is not None:
            self._start(self._replace(status.id, by_template))
        elif self._template is not None:
            # The news may be quicker than the answer to whoever is still sending.
            _keep(self._failed, status.id, True)
        else:
            log.warning("a message did not arrive. %s", NO_TEMPLATE)

    async def _replace(self, message_id: str, by_template: Message) -> None:
        try:
            _keep(self._replaced, message_id, await self._post(by_template))
        except PlacetError as error:
            log.warning("a message did not arrive, and its template neither: %s", error.message)

    async def _under_way(self) -> None:
        """Wait for templates that are on their way: an ending must not overtake its question."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def from_environment(environ: Mapping[str, str]) -> WhatsAppChannel:
    """A channel from the PLACET_WHATSAPP_… variables; raises SettingsError naming those that are missing."""
    require(environ, REQUIRED, purpose="send questions to WhatsApp")
    return WhatsAppChannel(
        access_token=environ["PLACET_WHATSAPP_ACCESS_TOKEN"],
        phone_number_id=environ["PLACET_WHATSAPP_PHONE_NUMBER_ID"],
        to=environ["PLACET_WHATSAPP_TO"],
        app_secret=environ.get("PLACET_WHATSAPP_APP_SECRET") or None,
        verify_token=environ.get("PLACET_WHATSAPP_VERIFY_TOKEN") or None,
        template=environ.get("PLACET_WHATSAPP_TEMPLATE") or None,
        template_language=environ.get("PLACET_WHATSAPP_TEMPLATE_LANGUAGE") or "en",
        api_url=environ.get("PLACET_WHATSAPP_API_URL") or API_URL,
        api_version=environ.get("PLACET_WHATSAPP_API_VERSION") or API_VERSION,
    )


class _WindowClosed(ChannelRefused):
    """The person has not written for 24 hours."""


def _person(to: str) -> str:
    person = re.sub(r"^\+|[ ()-]", "", to)
    if not _PERSON.fullmatch(person):
        raise SettingsError(
            "PLACET_WHATSAPP_TO is a phone number with its country code, such as +41791234567."
        )
    return person


def _addressed(message: Message) -> Message:
    """The message with what every one needs; people without a visible number have an id instead."""
    rest = {name: part for name, part in message.items() if name != "to"}
    to = message["to"]
    person = {"to": to} if _NUMBER.fullmatch(to) else {"recipient": to}
    return {"messaging_product": "whatsapp", "recipient_type": "individual", **person, **rest}


def _keep(kept: dict[str, Any], message_id: str, what: Any) -> None:
    if len(kept) >= MOST_UNCONFIRMED:
        del kept[next(iter(kept))]
    kept[message_id] = what


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _error(reply: Reply) -> Mapping[str, Any]:
    error = reply.body.get("error")
    return error if isinstance(error, dict) else {}


def _code(reply: Reply) -> int | None:
    code = _error(reply).get("code")
    return code if isinstance(code, int) else None


def _refusal(reply: Reply) -> ChannelRefused:
    code, data = _code(reply), _error(reply).get("error_data")
    if code in WINDOW_CLOSED:
        return _WindowClosed(NO_TEMPLATE)
    known = REASONS.get(190 if reply.status == 401 else code or 0)
    if known is not None:
        return ChannelRefused(known)
    details = data.get("details") if isinstance(data, dict) else None
    said = told_by("WhatsApp", details or _error(reply).get("message"))
    return ChannelRefused(f"WhatsApp does not take this. {said}")
