"""Notify a tenant's webhook that a message is held, without its content."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from placet.desk import random_values
from placet.desk.new_deliveries import WEBHOOK
from placet.errors import CaseConflict
from placet.ports.endpoint_store import Endpoint
from placet.ports.hold_store import HoldRow
from placet.ports.outbox_store import Delivery
from placet.protocol.service_paths import INBOX
from placet.relay.hold import decode_hold_body
from placet.relay.holds.hold_storage import NoticeStore
from placet.relay.settings import NoticeSettings

HELD_EVENT = "relay.held"

log = logging.getLogger("placet.relay")


class HoldNotice(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of a notification. It identifies the hold and has no content of the message."""

    type: str = HELD_EVENT
    approval_id: str
    case_id: str
    tenant_id: str
    summary: str
    detection_source: str
    policy_name: str | None
    source: str
    sink_agent_id: str
    task_id: str
    correlation_id: str
    created_at: datetime
    inbox_url: str


class HoldNotifier:
    """Queues a callback for each hold, if the tenant has a receiver. A failure does not affect the hold."""

    def __init__(
        self,
        store: NoticeStore,
        settings: Mapping[str, NoticeSettings],
        *,
        public_url: str,
        now: Callable[[], datetime],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._public_url = public_url
        self._now = now
        self._wake = wake

    async def notify(self, hold: HoldRow) -> None:
        """Queue the notification of a new hold."""
        receiver = self._settings.get(hold.tenant)
        if receiver is None:
            return
        try:
            await self._enqueue(receiver, hold)
        except Exception:
            log.exception("hold_notice_failed hold_id=%s", hold.id)

    async def _enqueue(self, receiver: NoticeSettings, hold: HoldRow) -> None:
        now = self._now()
        if await self._store.get_endpoint(receiver.key, receiver.url) is None:
            endpoint = Endpoint(
                owner=receiver.key,
                url=receiver.url,
                secret=random_values.generate_callback_secret(),
                created_at=now,
            )
            with suppress(CaseConflict):  # a concurrent hold has registered the endpoint
                await self._store.save_endpoint(endpoint)
        delivery = Delivery(
            id=random_values.generate_message_id(),
            case_id="",
            event=HELD_EVENT,
            owner=receiver.key,
            courier=WEBHOOK,
            target=receiver.url,
            body=msgspec.json.encode(self._build_notice(hold)),
            created_at=now,
            next_at=now,
        )
        await self._store.add_deliveries([delivery])
        self._wake()

    def _build_notice(self, hold: HoldRow) -> HoldNotice:
        return HoldNotice(
            approval_id=hold.id,
            case_id=hold.case_id,
            tenant_id=hold.tenant,
            summary=decode_hold_body(hold).summary,
            detection_source=hold.detection_source,
            policy_name=hold.policy_name,
            source=hold.source,
            sink_agent_id=hold.sink,
            task_id=hold.task_id,
            correlation_id=hold.correlation_id,
            created_at=hold.created_at,
            inbox_url=f"{self._public_url}{INBOX}",
        )
