"""The audit log interface that every part of the relay writes to."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, Unpack

from placet.ports.audit_store import AuditRow
from placet.relay.audit.audit_event import AuditEventFactory, EventFields, EventStamp
from placet.relay.tenants import Membership, PayloadMode, Subscription
from placet.relay.write_queue import (
    CallWrites,
    RelayWriteStore,
    WriteQueue,
)


class AuditLog(Protocol):
    """Builds and stores audit events."""

    def get_payload_mode(self, tenant: str) -> PayloadMode:
        """Return how the tenant's message bodies are stored: `none`, `masked` or `full`.

        See `relay.audit.payload_bodies.build_payload_body`.
        """
        ...

    def build_event(self, type: str, subscription: Subscription, **fields: Unpack[EventFields]) -> AuditRow:
        """Return an event of the current time, or of its stamp. Pass it to `record`, or write it with a hold.

        `payload` has the fields of `AuditPayload` by their wire names. `requestBody` and `responseBody` come
        from `build_payload_body`. `message`, `metadata` and masked bodies must not contain findings, although
        only the auditors of the tenant read them.
        """
        ...

    def build_change_event(
        self, member: Membership, message: str, *, metadata: dict[str, Any], type: str = "POLICY_LIFECYCLE"
    ) -> AuditRow:
        """Return the event of a member's change of a policy, a binding or another record.

        Write it in the transaction of the change (`ConfigStore.change_records`).
        """
        ...

    def record(self, *events: AuditRow, call: CallWrites | None = None) -> None:
        """Queue events. They are written in order and in batches, at most 40 ms later.

        The task rows of `call` are written in the transaction of the first event. Raises Unavailable if the
        queue is full. Without events, the method only checks that.
        """
        ...

    def stamp(self) -> EventStamp:
        """Return the time and number of an event that is built later."""
        ...

    def record_later(
        self, make: Callable[[], AuditRow], *, size: int, call: CallWrites | None = None
    ) -> None:
        """Queue an event that `make` builds when it is written; see `record`.

        To build the event between two calls would cost twice as much. `make` raises nothing, and its
        arguments take about `size` bytes until it is called.
        """
        ...

    async def flush(self) -> None:
        """Return when all recorded events are on disk."""
        ...


class StoredAuditLog:
    """An `AuditLog` in the store: events are queued and written in batches."""

    def __init__(
        self,
        store: RelayWriteStore,
        *,
        now: Callable[[], datetime],
        get_payload_mode: Callable[[str], PayloadMode] = lambda tenant: "masked",
    ) -> None:
        factory = AuditEventFactory(now)
        self.build_event = factory.build_event
        self.build_change_event = factory.build_change_event
        self.stamp = factory.stamp
        self._get_payload_mode = get_payload_mode
        self.queue = WriteQueue(store)
        """Writes the events, and the task rows that belong to them."""

    @property
    def is_behind(self) -> bool:
        """Whether the store is unavailable and events wait for it."""
        return self.queue.is_behind

    def get_payload_mode(self, tenant: str) -> PayloadMode:
        """See `AuditLog`."""
        return self._get_payload_mode(tenant)

    def record(self, *events: AuditRow, call: CallWrites | None = None) -> None:
        """See `AuditLog`."""
        self.queue.record(*events, call=call)

    def record_later(
        self, make: Callable[[], AuditRow], *, size: int, call: CallWrites | None = None
    ) -> None:
        """See `AuditLog`."""
        self.queue.record_later(make, size, call)

    async def flush(self) -> None:
        """See `AuditLog`."""
        await self.queue.flush()

    async def aclose(self) -> None:
        """Write what is queued and accept no more. What cannot be written in time is lost and logged."""
        await self.queue.aclose()
