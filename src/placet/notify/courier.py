"""Deliver notifications: send a case to a recipient, and update the messages once it is closed."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.cases import events as log_events
from placet.cases.case import Case, Offer
from placet.desk.answer import list_button_actions
from placet.desk.notifications import NOTIFY, CaseNotifications, Notification, read_notification
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseNotFound, ContentAltered, PlacetError, SettingsError
from placet.notify.button_references import ButtonReferences, supports_buttons
from placet.notify.case_card import build_case_closure, build_notification_card
from placet.notify.channel_pool import ChannelPool
from placet.ports.channel import Card, SentMessage
from placet.ports.courier import DeliveryReply, OutgoingRequest
from placet.ports.outbox_store import DeliveryFilter, OutboxStore
from placet.ports.recipients import Recipient
from placet.protocol.poll import Status

SEND_TIMEOUT_S = 50.0
"""Shorter than the lease of a delivery, so that no other process sends it at the same time."""
CHECK_AGAIN_AFTER = timedelta(seconds=2)
MAX_WAITING = 100

log = logging.getLogger("placet.notify")


class SentNotification(Struct, frozen=True, kw_only=True):
    """The data of the event that records a sent message."""

    delivery_id: str
    kind: str
    recipient: str
    address: str
    message: SentMessage


class NotificationCourier:
    """A `Courier` that writes to people. A failed attempt is retried; it never changes the case."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        notifications: CaseNotifications,
        outbox: OutboxStore,
        channels: ChannelPool,
        references: ButtonReferences,
    ) -> None:
        self._desk = desk
        self._notifications = notifications
        self._outbox = outbox
        self._channels = channels
        self._references = references

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Make one attempt. Failures are replies, not exceptions."""
        notification = msgspec.json.decode(request.body, type=Notification)
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                if notification.kind == "closed":
                    return await self._close(notification)
                return await self._notify(notification)
        except TimeoutError:
            return _reply("failed", f"The platform took longer than {SEND_TIMEOUT_S:.0f} seconds.")
        except (CaseNotFound, ContentAltered) as error:
            return _reply("unneeded", error.message)
        except SettingsError as error:
            return _reply("refused", error.message)
        except PlacetError as error:
            return _reply("failed", error.message)

    async def _notify(self, notification: Notification) -> DeliveryReply:
        case, offer = await self._desk.get_case_and_offer(notification.case_id)
        if reason := self._explain_unneeded(case, notification):
            return _reply("unneeded", reason)
        if any(one.delivery_id == notification.id for one in await self._list_sent(case.id)):
            return _reply("delivered")  # sent by an attempt that was cut off before it could say so
        recipient = await self._find_recipient(notification)
        card = await self._build_card(case, offer, notification, recipient)
        channel = self._channels.get(notification.address)
        message = await channel.send(card)
        sent = SentNotification(
            delivery_id=notification.id,
            kind=notification.kind,
            recipient=notification.recipient,
            address=notification.address,
            message=message,
        )
        is_reminder = notification.kind != "new_case"
        details: dict[str, Any] = msgspec.to_builtins(sent)
        after = await self._desk.record_notification(case.id, details, is_reminder=is_reminder)
        if not after.live:  # it closed meanwhile, and nobody else knows of this message
            await self._close_late(message, card, after, notification)
        return _reply("delivered")

    def _explain_unneeded(self, case: Case, notification: Notification) -> str | None:
        """Return why this need not be sent any more, or None."""
        if not case.live or self._desk.now() >= case.expires_at:
            return "The case is closed."
        if notification.kind == "reminder" and case.status is Status.IN_PROGRESS:
            return "Somebody has begun to answer."
        return None

    async def _close(self, notification: Notification) -> DeliveryReply:
        """Update the messages at one address, once no earlier delivery to it is on its way."""
        case, offer = await self._desk.get_case_and_offer(notification.case_id)
        waiting = await self._outbox.list_deliveries(
            DeliveryFilter(case_id=case.id, state="waiting"), limit=MAX_WAITING
        )
        earlier = (read_notification(one) for one in waiting if one.courier == NOTIFY)
        if any(one and one.kind != "closed" and one.address == notification.address for one in earlier):
            return DeliveryReply(
                status=None,
                error=None,
                took_for=timedelta(0),
                under_way=True,
                retry_after=CHECK_AGAIN_AFTER,
            )
        card = await self._build_card(case, offer, notification, None)
        channel = self._channels.get(notification.address)
        for sent in await self._list_sent(case.id):
            if (sent.recipient, sent.address) == (notification.recipient, notification.address):
                await channel.mark_closed(sent.message, card, build_case_closure(case))
        return _reply("delivered")

    async def _close_late(
        self, message: SentMessage, card: Card, case: Case, notification: Notification
    ) -> None:
        try:
            channel = self._channels.get(notification.address)
            await channel.mark_closed(message, card, build_case_closure(case))
        except PlacetError as error:
            log.warning("message_update_failed error=%s", error.message)

    async def _find_recipient(self, notification: Notification) -> Recipient:
        found = await self._notifications.directory.resolve((notification.recipient,))
        if not found or notification.address not in found[0].addresses:
            raise SettingsError(f"{notification.recipient!r} no longer has this address in the settings.")
        return found[0]

    async def _build_card(
        self, case: Case, offer: Offer, notification: Notification, recipient: Recipient | None
    ) -> Card:
        token = self._notifications.derive_review_token(case.id, notification.recipient)
        return build_notification_card(
            case,
            offer,
            kind=notification.kind,
            review_url=case.own_review_url or self._desk.addresses.build_review_url(case.id, token),
            references=self._build_references(case, offer, notification, recipient),
            service_name=self._desk.service_name,
            round=await self._count_rounds(case),
        )

    def _build_references(
        self, case: Case, offer: Offer, notification: Notification, recipient: Recipient | None
    ) -> Mapping[str, str]:
        """Return the actions of the buttons by reference; none unless somebody may press them there."""
        platform = notification.address.partition(":")[0]
        answerers = recipient.answerers if recipient is not None else {}
        if not supports_buttons(case) or not any(one.startswith(f"{platform}:") for one in answerers):
            return {}
        rules = self._desk.find_rules(case.type, offer.context)
        return {
            self._references.build(case, offer.actions.index(action)): action
            for action in list_button_actions(offer, rules)
            if action in offer.actions
        }

    async def _count_rounds(self, case: Case) -> int:
        """Return which round of its conversation the case is, from 1."""
        if case.previous_case_id is None:
            return 1
        rounds = await self._desk.list_rounds(case)
        return 1 + [one.id for one in rounds].index(case.id)

    async def _list_sent(self, case_id: str) -> Sequence[SentNotification]:
        """Return the messages about a case, oldest first."""
        return [
            msgspec.json.decode(event.data, type=SentNotification)
            for event in await self._desk.list_events(case_id)
            if event.type == log_events.NOTIFIED and event.data
        ]


AttemptOutcome = Literal["delivered", "unneeded", "refused", "failed"]
STATUS: Mapping[AttemptOutcome, int | None] = {
    "delivered": 200,
    "unneeded": 204,
    "refused": None,
    "failed": None,
}


def _reply(outcome: AttemptOutcome, error: str | None = None) -> DeliveryReply:
    return DeliveryReply(
        status=STATUS[outcome], error=error, took_for=timedelta(0), refused=outcome == "refused"
    )
