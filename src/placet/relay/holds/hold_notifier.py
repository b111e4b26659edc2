"""Notify a tenant's webhook of held messages and observed matches, without their content."""

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
from placet.ports.relay_store import RelayStore
from placet.protocol.service_paths import INBOX
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.reply import A2AReply
from placet.relay.exchange import Exchange
from placet.relay.hold import decode_hold_body
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import omit_sensitive_id
from placet.relay.settings import NoticeSettings

HELD_EVENT = "relay.held"
OBSERVED_EVENT = "relay.observed"
MAX_LISTED = 100

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


class ObservedNotice(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of a notification about a stream that the caller has got although policies matched."""

    type: str = OBSERVED_EVENT
    tenant_id: str
    policy_names: tuple[str, ...]
    source: str
    sink_agent_id: str
    task_id: str | None
    correlation_id: str
    created_at: datetime


class HoldNotifier:
    """Queues callbacks for a tenant that has a receiver. A failure affects neither hold nor stream."""

    def __init__(
        self,
        store: RelayStore,
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
            await self._enqueue(receiver, HELD_EVENT, self._build_notice(hold))
        except Exception:
            log.exception("hold_notice_failed hold_id=%s", hold.id)

    async def notify_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        """Queue the notification of matches in a stream that was only observed."""
        subscription = exchange.subscription
        receiver = self._settings.get(subscription.tenant)
        if receiver is None:
            return
        policies = (*evaluation.matched, *(one.applied for one in evaluation.unchecked))
        names = dict.fromkeys(applied.policy.name for applied in policies[:MAX_LISTED])
        task_id = message.task_id if isinstance(message, A2AReply) else None
        notice = ObservedNotice(
            tenant_id=subscription.tenant,
            policy_names=tuple(names),
            source=subscription.source.name,
            sink_agent_id=subscription.sink.id,
            task_id=omit_sensitive_id(task_id, evaluation.findings),
            correlation_id=exchange.correlation_id,
            created_at=self._now(),
        )
        try:
            await self._enqueue(receiver, OBSERVED_EVENT, notice)
        except Exception:
            log.exception("observed_notice_failed correlation_id=%s", exchange.correlation_id)

    async def _enqueue(
        self, receiver: NoticeSettings, event: str, notice: HoldNotice | ObservedNotice
    ) -> None:
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
            event=event,
            owner=receiver.key,
            courier=WEBHOOK,
            target=receiver.url,
            body=msgspec.json.encode(notice),
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
