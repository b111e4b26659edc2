"""Storage for outbox deliveries."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

RETAIN_NOTICES_FOR = timedelta(days=7)
"""How long a settled delivery that belongs to no case stays in the delivery log."""
DeliveryState = Literal["waiting", "delivered", "failed"]


class Delivery(Struct, frozen=True, kw_only=True):
    """One message to a machine, sent at least once until it is delivered or has failed."""

    id: str
    case_id: str
    """Empty for a delivery that belongs to no case; its body is removed as soon as it is settled."""
    event: str
    owner: str
    courier: str
    target: str
    body: bytes
    created_at: datetime
    next_at: datetime | None
    state: DeliveryState = "waiting"
    attempts: int = 0
    last_status: int | None = None
    last_error: str | None = None
    settled_at: datetime | None = None


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries to list; None matches all."""

    owner: str | None = None
    case_id: str | None = None
    state: str | None = None


ALL_DELIVERIES = DeliveryFilter()


class OutboxStore(Protocol):
    """Stores deliveries until they are settled, and their log afterwards."""

    async def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries that belong to no case, all or none."""
        ...

    async def lease_deliveries(
        self, now: datetime, *, lease_for: timedelta, limit: int, except_to: Collection[str] = ()
    ) -> Sequence[Delivery]:
        """Return waiting deliveries that are due, and hide them from other workers until the lease ends.

        Deliveries to the targets in `except_to` are not leased.
        """
        ...

    async def save_delivery_attempt(self, delivery: Delivery, *, disable_endpoint: bool = False) -> None:
        """Write the outcome of one attempt. A delivered delivery stays delivered."""
        ...

    async def requeue_delivery(self, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Make a delivery due again in any state; None if it is unknown or its content was erased."""
        ...

    async def list_deliveries(
        self, filter: DeliveryFilter = ALL_DELIVERIES, *, limit: int = 50
    ) -> Sequence[Delivery]:
        """Return the delivery log, newest first."""
        ...

    async def get_delivery(self, delivery_id: str) -> Delivery | None:
        """Return one delivery, or None if it does not exist."""
        ...

    async def get_next_delivery_at(self) -> datetime | None:
        """Return when the next waiting delivery is due."""
        ...
