"""The WhatsApp channel: a business number sends questions and receives interactions by webhook.

Messages cannot be edited. A person who has not written for 24 hours can be reached only by a template.
WhatsApp often reports this afterwards, by webhook: the channel sends the template then.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.channels.environment import require_variables
from placet.channels.platform_api import PlatformApi, PlatformReply, Sleep, quote_platform
from placet.channels.whatsapp import render
from placet.channels.whatsapp.interactions import (
    WhatsAppStatus,
    interactions_from_value,
    read_statuses,
    read_values,
)
from placet.channels.whatsapp.render import MessageBody
from placet.channels.whatsapp.request_verification import verify_challenge, verify_request
from placet.errors import ChannelRefused, PlacetError, SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult

API_URL = "https://graph.facebook.com"
API_VERSION = "v24.0"
RETRY_DELAY_S = 2.0
MAX_UNCONFIRMED = 1_000
REQUIRED = (
    "PLACET_WHATSAPP_ACCESS_TOKEN",
    "PLACET_WHATSAPP_PHONE_NUMBER_ID",
    "PLACET_WHATSAPP_TO",
)
NO_TEMPLATE = (
    "WhatsApp delivers free-form messages only within 24 hours after the person wrote. "
    "Set PLACET_WHATSAPP_TEMPLATE to a template for all other times."
)
WINDOW_CLOSED = frozenset({131047, 470})
"""More than 24 hours since the person last wrote: only a template is delivered."""
BUSY = frozenset({4, 80007, 130429, 131048, 131056})
"""Too many calls, messages, or messages to one person."""
# The most frequent refusals, and what to do about them.
KNOWN_REFUSALS: Mapping[int, str] = {
    190: "WhatsApp does not know this access token, or it has expired; check PLACET_WHATSAPP_ACCESS_TOKEN.",
    131026: "WhatsApp cannot reach this person; check PLACET_WHATSAPP_TO.",
    131030: "A test number writes to registered people only; add this one in the app's settings.",
    132000: "The template does not have the three parameters that Placet fills in.",
    132001: "There is no approved template of this name and language; check PLACET_WHATSAPP_TEMPLATE.",
}

_NUMBER = re.compile(r"[0-9]{1,64}")
_PERSON = re.compile(r"[0-9]{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,128}")
_VERSION = re.compile(r"v[0-9]{1,3}\.[0-9]{1,2}")

log = logging.getLogger("placet.channels.whatsapp")


class WhatsAppChannel:
    """One business number that writes to one person.

    `to` is a phone number with its country code. Webhooks need `app_secret` and `verify_token`; without them,
    questions are sent as the template if there is one, because failed free messages would go unnoticed.
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
            raise SettingsError("PLACET_WHATSAPP_ACCESS_TOKEN must be one line without spaces.")
        if not _NUMBER.fullmatch(phone_number_id):
            raise SettingsError(
                "PLACET_WHATSAPP_PHONE_NUMBER_ID must be digits; it is not the phone number itself."
            )
        if not _VERSION.fullmatch(api_version):
            raise SettingsError("PLACET_WHATSAPP_API_VERSION must look like v24.0.")
        self._to = _parse_recipient(to)
        self._phone_number_id = phone_number_id
        self._app_secret = app_secret
        self._verify_token = verify_token
        self._template = template
        self._language = template_language
        self._path = f"/{api_version}/{phone_number_id}/messages"
        self._now = clock
        self._fallbacks: dict[str, MessageBody] = {}
        self._replaced: dict[str, str] = {}
        self._failed: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._api = PlatformApi(
            "WhatsApp",
            api_url,
            headers={"Authorization": f"Bearer {access_token}"},
            sleep=sleep,
            is_busy=lambda reply: reply.status == 429 or _find_error_code(reply) in BUSY,
            busy_delay_s=RETRY_DELAY_S,
        )

    async def send(self, card: Card) -> SentMessage:
        """Send the question, as the template if a free message is not delivered."""
        free = {"to": self._to, **render.build_message(card)}
        message_id = await self._deliver(
            free, self._build_fallback(self._to, render.build_template_message, card)
        )
        return SentMessage(
            channel=self.name, conversation_id=self._to, message_id=message_id, sent_at=self._now()
        )

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Reply to the question with how the case closed; its buttons stay but no longer work."""
        await self._finish_tasks()
        context = {"message_id": self._replaced.get(sent_message.message_id, sent_message.message_id)}
        free = {
            "to": sent_message.conversation_id,
            "context": context,
            **render.build_follow_up(card, closure),
        }
        await self._deliver(
            free,
            self._build_fallback(
                sent_message.conversation_id, render.build_template_follow_up, card, closure
            ),
        )

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Reply to the interaction; it counts as a message by the person, so no template is needed."""
        context = {"message_id": interaction.reply_to.get("message_id", interaction.id)}
        to = interaction.reply_to.get("to", interaction.user.user_id)
        await self._post({"to": to, "context": context, **render.build_reply(text)})

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Return the interactions in a signed notification, or answer the webhook verification."""
        if request.method == "GET":
            return self._answer_challenge(request)
        self._check_signature(request)
        values = read_values(request.body, phone_number_id=self._phone_number_id)
        for value in values:
            for status in read_statuses(value):
                self._handle_status(status)
        return WebhookResult(
            interactions=tuple(
                interaction for value in values for interaction in interactions_from_value(value)
            )
        )

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Raise SettingsError: WhatsApp reports interactions only by webhook."""
        raise SettingsError("WhatsApp reports button presses only to a public address.")
        yield ()

    async def aclose(self) -> None:
        """Finish sending, then close the connections."""
        await self._finish_tasks()
        await self._api.aclose()

    # Sending

    def _build_fallback(
        self, to: str, write: Callable[..., MessageBody], *parts: Card | CaseClosure
    ) -> MessageBody | None:
        if self._template is None:
            return None
        try:
            return {"to": to, **write(*parts, name=self._template, language=self._language)}
        except ChannelRefused:  # too long for a template
            return None

    async def _deliver(self, free: MessageBody, by_template: MessageBody | None) -> str:
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
            _store_bounded(self._fallbacks, message_id, by_template)
        return message_id

    async def _post(self, message: MessageBody) -> str:
        reply = await self._api.call("POST", self._path, _add_recipient(message))
        if not reply.is_ok:
            raise _build_refusal(reply)
        try:
            return str(reply.body["messages"][0]["id"])
        except (LookupError, TypeError):
            raise Unreachable("WhatsApp's response does not name the message.") from None

    # Webhooks

    def _answer_challenge(self, request: WebhookRequest) -> WebhookResult:
        if not self._verify_token:
            raise SettingsError(
                "Set PLACET_WHATSAPP_VERIFY_TOKEN to the verify token in the webhook's settings."
            )
        challenge = verify_challenge(request, self._verify_token)
        return WebhookResult(body=challenge.encode(), content_type="text/plain")

    def _check_signature(self, request: WebhookRequest) -> None:
        if not self._app_secret:
            raise SettingsError("Set PLACET_WHATSAPP_APP_SECRET to the secret in your app's basic settings.")
        verify_request(request, self._app_secret)

    def _handle_status(self, status: WhatsAppStatus) -> None:
        """Send the template, once, for a message that failed because of the 24-hour limit."""
        if status.status not in ("failed", "delivered", "read"):
            return
        by_template = self._fallbacks.pop(status.id, None)
        if status.status != "failed" or status.id in self._replaced:
            return
        if not any(failure.code in WINDOW_CLOSED for failure in status.errors):
            reason = quote_platform("WhatsApp", status.errors[0].title if status.errors else "")
            log.warning("whatsapp_message_failed reason=%s", reason)
        elif by_template is not None:
            self._start(self._replace(status.id, by_template))
        elif self._template is not None:
            # The status may arrive before the response to the call that sent the message.
            _store_bounded(self._failed, status.id, True)
        else:
            log.warning("whatsapp_message_failed reason=%s", NO_TEMPLATE)

    async def _replace(self, message_id: str, by_template: MessageBody) -> None:
        try:
            _store_bounded(self._replaced, message_id, await self._post(by_template))
        except PlacetError as error:
            log.warning("whatsapp_template_failed reason=%s", error.message)

    async def _finish_tasks(self) -> None:
        """Wait for templates that are being sent: a follow-up must not overtake its question."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def from_environment(environ: Mapping[str, str]) -> WhatsAppChannel:
    """Create the channel from PLACET_WHATSAPP_… variables; raise SettingsError if one is missing."""
    require_variables(environ, REQUIRED, purpose="send questions to WhatsApp")
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


def _parse_recipient(to: str) -> str:
    person = re.sub(r"^\+|[ ()-]", "", to)
    if not _PERSON.fullmatch(person):
        raise SettingsError(
            "PLACET_WHATSAPP_TO must be a phone number with its country code, such as +41791234567."
        )
    return person


def _add_recipient(message: MessageBody) -> MessageBody:
    """Return the message with its recipient: a phone number, or an id if the number is hidden."""
    rest = {name: part for name, part in message.items() if name != "to"}
    to = message["to"]
    person = {"to": to} if _NUMBER.fullmatch(to) else {"recipient": to}
    return {"messaging_product": "whatsapp", "recipient_type": "individual", **person, **rest}


def _store_bounded(entries: dict[str, Any], message_id: str, value: Any) -> None:
    if len(entries) >= MAX_UNCONFIRMED:
        del entries[next(iter(entries))]
    entries[message_id] = value


def _find_error(reply: PlatformReply) -> Mapping[str, Any]:
    error = reply.body.get("error")
    return error if isinstance(error, dict) else {}


def _find_error_code(reply: PlatformReply) -> int | None:
    code = _find_error(reply).get("code")
    return code if isinstance(code, int) else None


def _build_refusal(reply: PlatformReply) -> ChannelRefused:
    code, data = _find_error_code(reply), _find_error(reply).get("error_data")
    if code in WINDOW_CLOSED:
        return _WindowClosed(NO_TEMPLATE)
    known = KNOWN_REFUSALS.get(190 if reply.status == 401 else code or 0)
    if known is not None:
        return ChannelRefused(known)
    details = data.get("details") if isinstance(data, dict) else None
    reason = quote_platform("WhatsApp", details or _find_error(reply).get("message"))
    return ChannelRefused(f"WhatsApp refused the message. {reason}")
