"""Write push notifications to the outbox."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from placet.desk import random_values
from placet.ports.outbox_store import Delivery, OutboxStore
from placet.relay.a2a.reply import A2AReply
from placet.relay.push.courier import COURIER, format_delivery_target
from placet.relay.push.payloads import build_push_payload
from placet.relay.push.webhooks import PushWebhook


class PushOutbox:
    """Queues push notifications to callers."""

    def __init__(self, store: OutboxStore, *, now: Callable[[], datetime], wake: Callable[[], None]) -> None:
        self._store = store
        self._now = now
        self._wake = wake

    async def enqueue(self, webhook: PushWebhook, reply: A2AReply) -> None:
        """Queue a notification to the caller of a webhook, in the caller's A2A version."""
        now = self._now()
        delivery = Delivery(
            id=random_values.generate_message_id(),
            case_id="",
            event="push",
            owner=webhook.owner,
            courier=COURIER,
            target=format_delivery_target(webhook.id),
            body=msgspec.json.encode(build_push_payload(reply, webhook.dialect)),
            created_at=now,
            next_at=now,
        )
        await self._store.add_deliveries([delivery])
        self._wake()
