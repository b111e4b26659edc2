"""Deliver push notifications to callers, one at a time for each webhook."""

import asyncio
from datetime import timedelta
from weakref import WeakValueDictionary

from placet.ports.courier import Courier, DeliveryReply, OutgoingRequest
from placet.relay.push.webhooks import WebhookRepository

COURIER = "push"
# Together with the receiver's time to respond, this is less than the outbox's lease.
WAIT_FOR = timedelta(seconds=30)
RETRY_AFTER = timedelta(seconds=5)
GONE = 410


def format_delivery_target(webhook_id: str) -> str:
    """Return the target of a webhook's deliveries. The courier looks up the address when it sends one."""
    return f"{COURIER}:{webhook_id}"


class PushCourier:
    """A `Courier` that looks up callers' addresses; `post` sends the request."""

    def __init__(self, webhooks: WebhookRepository, post: Courier) -> None:
        self._webhooks = webhooks
        self._post = post
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Send one notification, after those that are being sent to the same webhook."""
        webhook_id = request.url.removeprefix(f"{COURIER}:")
        lock = self._locks.setdefault(webhook_id, asyncio.Lock())
        try:
            async with asyncio.timeout(WAIT_FOR.total_seconds()):
                await lock.acquire()
        except TimeoutError:
            return DeliveryReply(
                status=None,
                error="earlier notifications are still being sent",
                took_for=WAIT_FOR,
                under_way=True,
                retry_after=RETRY_AFTER,
            )
        try:
            return await self._deliver(webhook_id, request)
        finally:
            lock.release()

    async def _deliver(self, webhook_id: str, request: OutgoingRequest) -> DeliveryReply:
        webhook = await self._webhooks.find(webhook_id)
        if webhook is None:
            return DeliveryReply(
                status=None, error="the webhook is closed", took_for=timedelta(0), refused=True
            )
        target = self._webhooks.decrypt_target(webhook)
        headers = {"Content-Type": "application/json", **target.headers()}
        reply = await self._post.deliver(OutgoingRequest(url=target.url, body=request.body, headers=headers))
        if reply.status == GONE:
            async with self._webhooks.lock(webhook_id):
                latest = await self._webhooks.find(webhook_id)
                if latest is not None:
                    await self._webhooks.close(latest)
        return reply
