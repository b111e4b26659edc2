"""An audit log over a store: events are queued, and written in batches with the task rows of their calls.

The events of a hold are not written here but with the hold
(docs/decisions/0021-write-audit-events-in-batches.md).
"""

from collections.abc import Callable
from datetime import datetime

from placet.ports.audit_store import AuditRow
from placet.relay.audit.event_factory import AuditEventFactory
from placet.relay.retention_policy import PayloadMode
from placet.relay.write_queue import (
    CallWrites,
    RelayWriteStore,
    WriteQueue,
)


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
