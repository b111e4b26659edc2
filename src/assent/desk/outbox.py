"""The outbox: leases what is owed, sends it, writes down how it went; at least once, never silently lost."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from assent.desk import minting
from assent.errors import RequestError, ValidationFailed
from assent.ports.courier import Courier, DeliveryReply, OutgoingRequest
from assent.ports.store import Delivery, Endpoint, Store
from assent.protocol.callback import judge_reply, next_attempt_in, sign_callback

LEASE_FOR = timedelta(seconds=60)
BATCH = 32


class Outbox:
    """Sends waiting deliveries through their couriers."""

    def __init__(
        self, *, store: Store, couriers: Mapping[str, Courier], clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._couriers = couriers
        self._now = clock

    async def once(self) -> int:
        """Send everything that is due now; returns how many attempts were made."""
        sent = 0
        while batch := await self._store.lease_deliveries(self._now(), lease_for=LEASE_FOR, limit=BATCH):
            await asyncio.gather(*(self._attempt(delivery) for delivery in batch))
            sent += len(batch)
        return sent

    async def next_at(self) -> datetime | None:
        """When the next delivery is due."""
        return await self._store.next_delivery_at()

    async def replay(self, delivery_id: str) -> Delivery:
        """Send a delivery again, whatever became of it; raises RequestError if its content is gone."""
        delivery = await self._store.delivery(delivery_id)
        if delivery is None:
            raise ValidationFailed(f"There is no delivery {delivery_id!r}.")
        if not delivery.body:
            raise RequestError("This delivery's content was erased at the end of its retention.")
        again = replace(delivery, state="waiting", attempts=0, next_at=self._now(), settled_at=None)
        await self._store.settle_delivery(again)
        return again

    async def _attempt(self, delivery: Delivery) -> None:
        endpoint = await self._store.endpoint(delivery.owner, delivery.target)
        if endpoint is None or endpoint.disabled_at is not None:
            await self._store.settle_delivery(self._failed(delivery, "the endpoint is disabled"))
            return
        headers = self._headers(delivery, endpoint)
        reply = await self._couriers[delivery.courier].deliver(
            OutgoingRequest(url=delivery.target, body=delivery.body, headers=headers)
        )
        settled, disable = self._settled(delivery, reply)
        await self._store.settle_delivery(settled, disable_endpoint=disable)

    def _headers(self, delivery: Delivery, endpoint: Endpoint) -> dict[str, str]:
        signed = sign_callback(
            delivery.body,
            secrets=active_secrets(endpoint, self._now()),
            message_id=delivery.id,
            at=self._now(),
        )
        return {"Content-Type": "application/json", **signed}

    def _settled(self, delivery: Delivery, reply: DeliveryReply) -> tuple[Delivery, bool]:
        tried = replace(
            delivery, attempts=delivery.attempts + 1, last_status=reply.status, last_error=reply.error
        )
        verdict = "give_up" if reply.refused else judge_reply(reply.status)
        if verdict == "delivered":
            return replace(tried, state="delivered", next_at=None, settled_at=self._now()), False
        wait = next_attempt_in(tried.attempts, minting.jitter()) if verdict == "retry" else None
        if wait is None:
            return self._failed(tried, reply.error), verdict == "disable"
        return replace(tried, next_at=self._now() + max(wait, reply.retry_after or wait)), False

    def _failed(self, delivery: Delivery, error: str | None) -> Delivery:
        return replace(delivery, state="failed", next_at=None, last_error=error, settled_at=self._now())


def active_secrets(endpoint: Endpoint, now: datetime) -> Sequence[str]:
    """The secrets that sign now: the current one and, during rotation, the one before."""
    rotating = endpoint.previous_secret and endpoint.previous_until and now < endpoint.previous_until
    return (
        [endpoint.secret, endpoint.previous_secret]
        if rotating and endpoint.previous_secret
        else [endpoint.secret]
    )


def rotated(endpoint: Endpoint, *, now: datetime, overlap_for: timedelta) -> Endpoint:
    """The endpoint with a new secret; the old one keeps signing until the overlap ends."""
    return replace(
        endpoint,
        secret=minting.callback_secret(),
        previous_secret=endpoint.secret,
        previous_until=now + overlap_for,
    )
