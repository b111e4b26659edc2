"""Deliver push notifications to callers, one at a time for each webhook."""

import asyncio
from datetime import timedelta
from weakref import WeakValueDictionary

from placet.ports.courier import Courier, DeliveryReply, OutgoingRequest
from placet.relay.push.webhooks import WebhookRepository

COURIER = "push"
# With the time a receiver has to answer, this is less than the outbox's lease.
WAIT_FOR = timedelta(seconds=30)
RETRY_AFTER = timedelta(seconds=5)
GONE = 410


def format_delivery_target(webhook_id: str) -> str:
    """Where deliveries for a webhook go: the address itself is looked up when one is sent."""
    return f"{COURIER}:{webhook_id}"


class PushCourier:
    """A `Courier` that knows callers' addresses; `post` makes the request."""

    def __init__(self, webhooks: WebhookRepository, post: Courier) -> None:
        self._webhooks = webhooks
        self._post = post
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Send one notification; none overtakes another that is under way."""
        webhook_id = request.url.removeprefix(f"{COURIER}:")
        turn = self._turns.setdefault(webhook_id, asyncio.Lock())
        try:
            async with asyncio.timeout(WAIT_FOR.total_seconds()):
                await turn.acquire()
        except TimeoutError:
            return DeliveryReply(
                status=None,
                error="earlier ones are under way",
                took_for=WAIT_FOR,
                under_way=True,
                retry_after=RETRY_AFTER,
            )
        try:
            return await self._deliver(webhook_id, request)
        finally:
            turn.release()

    async def _deliver(self, webhook_id: str, request: OutgoingRequest) -> DeliveryReply:
        webhook = await self._webhooks.find(webhook_id)
        if webhook is None:
            return DeliveryReply(
                status=None, error="the webhook is gone", took_for=timedelta(0), refused=True
            )
        address = self._webhooks.address(webhook)
        headers = {"Content-Type": "application/json", **address.headers()}
        reply = await self._post.deliver(OutgoingRequest(url=address.url, body=request.body, headers=headers))
        if reply.status == GONE:
            async with self._webhooks.lock(webhook_id):
                again = await self._webhooks.find(webhook_id)
                if again is not None:
                    await self._webhooks.close(again)
        return reply
