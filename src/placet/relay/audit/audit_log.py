"""The audit log interface that every part of the relay writes to."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from placet.ports.audit_store import AuditRow
from placet.relay.audit.event_factory import EventStamp
from placet.relay.audit.retention_policy import PayloadMode
from placet.relay.registry.subscriptions import Subscription
from placet.relay.registry.tenant_membership import Membership


class AuditLog(Protocol):
    """Builds and stores audit events."""

    def payloads_for(self, tenant: str) -> PayloadMode:
        """What becomes of this tenant's messages in the audit: `none` keeps no bodies, `masked` keeps them
        without what policies found, `full` keeps them as they were. See `relay.audit.bodies.kept_body`."""
        ...

    def row(
        self,
        type: str,
        subscription: Subscription,
        *,
        correlation_id: str,
        action: str | None = None,
        transport: str | None = None,
        message: str = "",
        task_id: str | None = None,
        context_id: str | None = None,
        message_id: str | None = None,
        task_state: str | None = None,
        took_for: timedelta | None = None,
        payload: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        stamp: EventStamp | None = None,
    ) -> AuditRow:
        """An event of now, or of when it was stamped, to be noted here or written together with a hold.

        `payload` has the fields of `relay.audit.event.Payload` by their wire names; `requestBody` and
        `responseBody` come from `relay.audit.bodies.kept_body`. Nobody but this tenant's auditors reads
        it, and still nothing that a policy found may stand in `message`, `metadata` or a masked body.
        """
        ...

    def change(
        self, member: Membership, message: str, *, metadata: dict[str, Any], type: str = "POLICY_LIFECYCLE"
    ) -> AuditRow:
        """An event of now: a member changed what the relay does, such as a policy or a binding.

        Write it with the change, in one transaction (`ConfigStore.change_records`).
        """
        ...

    def record(self, *events: AuditRow) -> None:
        """Keep events: written within a moment, in order, many at a time.

        Raises Unavailable when so much waits to be written that no more may pass unrecorded.
        """
        ...

    def stamp(self) -> EventStamp:
        """What makes an event one of now that is made later."""
        ...

    def record_later(self, make: Callable[[], AuditRow], *, size: int) -> None:
        """Keep an event that is made when it is written, in the order of all that was noted.

        Between calls that follow each other at full speed, making it costs twice as much. `make` raises
        nothing; what it needs takes about `size` bytes until then. Raises Unavailable as `note` does.
        """
        ...

    async def flush(self) -> None:
        """Return when all that was noted is on disk."""
        ...
