"""Storage for the relay's audit events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

SortOrder = Literal["newest", "oldest"]


class AuditRow(Struct, frozen=True, kw_only=True):
    """One audit event: something that happened to a message."""

    id: str
    tenant: str
    at: datetime
    type: str
    action: str | None
    transport: str | None
    source_agent: str | None
    source_user: str | None
    sink_agent: str | None
    correlation_id: str
    task_id: str | None
    body: bytes


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which audit events to list; None matches all. `since` is inclusive, `until` is exclusive."""

    since: datetime | None = None
    until: datetime | None = None
    types: tuple[str, ...] = ()
    action: str | None = None
    transport: str | None = None
    source_agent: str | None = None
    source_user: str | None = None
    sink_agent: str | None = None
    correlation_id: str | None = None
    task_id: str | None = None


class Trace(Struct, frozen=True, kw_only=True):
    """A summary of the audit events with one correlation id."""

    correlation_id: str
    began_at: datetime
    ended_at: datetime
    events: int


class AuditStore(Protocol):
    """Appends and reads audit events."""

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Append events, all or none. Raises RelayConflict if an id is taken."""
        ...

    async def list_audit_events(
        self, tenant: str, filter: AuditFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[AuditRow], int]:
        """Return a page of events, counted from 0, and the total number that match."""
        ...

    async def get_audit_event(self, tenant: str, event_id: str) -> AuditRow | None:
        """Return one event of this tenant."""
        ...

    async def list_audit_events_after(
        self, tenant: str, filter: AuditFilter, *, after: int = 0, limit: int = 500
    ) -> Sequence[tuple[int, AuditRow]]:
        """Return numbered events in the order they were written, with a number above `after`."""
        ...

    async def list_traces(
        self, tenant: str, filter: AuditFilter, *, page: int, size: int
    ) -> tuple[Sequence[Trace], int]:
        """Return the correlation ids of matching events, newest first, and how many there are.

        Each trace counts all events of its correlation id, including those that do not match.
        """
        ...

    async def list_audited_tenants(self) -> Sequence[str]:
        """Return every tenant that has events."""
        ...
