"""The outbox: leases due deliveries, sends them at least once, and records each attempt."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from placet.desk import random_values
from placet.desk.delivery_retries import (
    NOTIFICATION_RETRY_SCHEDULE,
    RELEASE_RETRY_SCHEDULE,
    RETRY_SCHEDULE,
    classify_reply,
    next_attempt_in,
)
from placet.desk.new_deliveries import RELAY, WEBHOOK
from placet.desk.notifications import NOTIFY
from placet.errors import RequestError, ValidationFailed
from placet.ports.courier import Courier, DeliveryReply, OutgoingRequest
from placet.ports.endpoint_store import Endpoint, EndpointStore
from placet.ports.outbox_store import Delivery, OutboxStore
from placet.protocol.callback import sign_callback

LEASE_FOR = timedelta(seconds=60)
AT_ONCE = 128
# A receiver with this many requests in flight gets no more until it answers one.
PER_TARGET = 16
# How often due deliveries are looked up while others are in flight.
CHECK_INTERVAL = timedelta(milliseconds=100)

SCHEDULES: Mapping[str, Sequence[timedelta]] = {
    RELAY: RELEASE_RETRY_SCHEDULE,
    NOTIFY: NOTIFICATION_RETRY_SCHEDULE,
}

UnderWay = dict["asyncio.Task[None]", str]

log = logging.getLogger("placet.outbox")


class CallbackStore(OutboxStore, EndpointStore, Protocol):
    """Deliveries and the endpoints that they go to."""


class Outbox:
    """Sends waiting deliveries through their couriers."""

    def __init__(
        self, *, store: CallbackStore, couriers: Mapping[str, Courier], clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._couriers = couriers
        self._now = clock

    async def run_once(self) -> int:
        """Send due deliveries until none is left or in flight; return the number of attempts.

        If it is cancelled or the store fails, attempts in flight are cancelled; they are repeated when their
        leases end.
        """
        under_way: UnderWay = {}
        made = 0
        try:
            while True:
                made += await self._start_due(under_way)
                if not under_way:
                    return made
                await self._wait_for_one(under_way)
        finally:
            for attempt in under_way:
                attempt.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def next_at(self) -> datetime | None:
        """Return when the next delivery is due, or None."""
        return await self._store.get_next_delivery_at()

    async def replay(self, delivery_id: str) -> Delivery:
        """Queue a delivery again, in any state. Raises RequestError if its content was erased."""
        again = await self._store.requeue_delivery(delivery_id, now=self._now())
        if again is not None:
            return again
        if await self._store.get_delivery(delivery_id) is None:
            raise ValidationFailed(f"There is no delivery {delivery_id!r}.")
        raise RequestError("This delivery's content was erased at the end of its retention.")

    async def _start_due(self, under_way: UnderWay) -> int:
        started = 0
        while (room := AT_ONCE - len(under_way)) > 0:
            crowd = Counter(under_way.values())
            leased = await self._store.lease_deliveries(
                self._now(),
                lease_for=LEASE_FOR,
                limit=min(room, PER_TARGET),
                except_to=[target for target, count in crowd.items() if count >= PER_TARGET],
            )
            if not leased:
                break
            under_way |= {asyncio.create_task(self._attempt(one)): one.target for one in leased}
            started += len(leased)
        return started

    async def _wait_for_one(self, under_way: UnderWay) -> None:
        done, _ = await asyncio.wait(
            under_way, timeout=CHECK_INTERVAL.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        for attempt in done:
            del under_way[attempt]
        for attempt in done:
            attempt.result()  # raises if the store failed

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            request, courier = await self._prepare(delivery), self._get_courier(delivery)
        except ValidationFailed as error:
            await self._store.save_delivery_attempt(self._fail(delivery, error.message))
            return
        settled, disable = self._apply_reply(delivery, await _deliver(courier, request))
        await self._store.save_delivery_attempt(settled, disable_endpoint=disable)

    async def _prepare(self, delivery: Delivery) -> OutgoingRequest:
        """Return the request to send. Only webhooks are signed."""
        last = next_attempt_in(delivery.attempts + 1, 0.0, _get_schedule(delivery)) is None
        headers = await self._sign_headers(delivery) if delivery.courier == WEBHOOK else {}
        return OutgoingRequest(url=delivery.target, body=delivery.body, headers=headers, last=last)

    async def _sign_headers(self, delivery: Delivery) -> dict[str, str]:
        endpoint = await self._store.get_endpoint(delivery.owner, delivery.target)
        if endpoint is None or endpoint.disabled_at is not None:
            raise ValidationFailed("the endpoint is disabled")
        signed = sign_callback(
            delivery.body,
            secrets=list_signing_secrets(endpoint, self._now()),
            message_id=delivery.id,
            at=self._now(),
        )
        return {"Content-Type": "application/json", **signed}

    def _get_courier(self, delivery: Delivery) -> Courier:
        if delivery.courier not in self._couriers:
            raise ValidationFailed(f"there is no courier {delivery.courier!r} here")
        return self._couriers[delivery.courier]

    def _apply_reply(self, delivery: Delivery, reply: DeliveryReply) -> tuple[Delivery, bool]:
        if reply.under_way:
            return replace(delivery, next_at=self._now() + (reply.retry_after or LEASE_FOR)), False
        tried = replace(
            delivery, attempts=delivery.attempts + 1, last_status=reply.status, last_error=reply.error
        )
        verdict = classify_reply(reply.status, refused=reply.refused)
        if verdict == "delivered":
            return replace(tried, state="delivered", next_at=None, settled_at=self._now()), False
        wait = None
        if verdict == "retry":
            wait = next_attempt_in(tried.attempts, random_values.generate_jitter(), _get_schedule(delivery))
        if wait is None:
            return self._fail(tried, reply.error), verdict == "disable"
        return replace(tried, next_at=self._now() + max(wait, reply.retry_after or wait)), False

    def _fail(self, delivery: Delivery, error: str | None) -> Delivery:
        return replace(delivery, state="failed", next_at=None, last_error=error, settled_at=self._now())


def _get_schedule(delivery: Delivery) -> Sequence[timedelta]:
    return SCHEDULES.get(delivery.courier, RETRY_SCHEDULE)


async def _deliver(courier: Courier, request: OutgoingRequest) -> DeliveryReply:
    """Return the reply to the request. An exception of the courier counts as a failed attempt."""
    try:
        return await courier.deliver(request)
    except Exception as error:
        log.exception("courier_failed")
        complaint = f"the courier failed: {type(error).__name__}"
        return DeliveryReply(status=None, error=complaint, took_for=timedelta(0))


def list_active_secrets(endpoint: Endpoint, now: datetime) -> Sequence[str]:
    """Return the secrets that sign now, the newest first: two while a secret is rotated."""
    rotating = endpoint.previous_secret and endpoint.previous_until and now < endpoint.previous_until
    return (
        [endpoint.secret, endpoint.previous_secret]
        if rotating and endpoint.previous_secret
        else [endpoint.secret]
    )


def list_signing_secrets(endpoint: Endpoint, now: datetime) -> Sequence[str]:
    """Return the secrets that sign now, the primary one first: the older one until the rotation ends."""
    return list(reversed(list_active_secrets(endpoint, now)))


def rotate_secret(endpoint: Endpoint, *, now: datetime, overlap_for: timedelta) -> Endpoint:
    """Return the endpoint with a new secret; the primary one goes on signing until the overlap ends.

    Rotating again replaces the new secret, which receivers may not know yet, and keeps the primary one.
    """
    return replace(
        endpoint,
        secret=random_values.generate_callback_secret(),
        previous_secret=list_signing_secrets(endpoint, now)[0],
        previous_until=now + overlap_for,
    )


def end_rotation(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with its newest secret alone: every receiver knows it."""
    return replace(endpoint, previous_secret=None, previous_until=None)
