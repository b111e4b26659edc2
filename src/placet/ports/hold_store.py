"""Storage for holds: messages that wait, or waited, for a reviewer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from placet.ports.audit_store import AuditRow, SortOrder
from placet.ports.task_store import TaskRow

HoldStatus = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]


class HoldRow(Struct, frozen=True, kw_only=True):
    """A message that waits, or waited, for a reviewer."""

    id: str
    tenant: str
    case_id: str
    status: HoldStatus
    rev: int
    """Counts the changes, from 1."""
    detection_source: str
    source: str
    """The caller that sent the message."""
    sink: str
    """The agent it was for."""
    task_id: str
    """The task as the caller names it."""
    policy_name: str | None
    correlation_id: str
    created_at: datetime
    resolved_at: datetime | None = None
    body: bytes
    envelope: bytes
    """The exact bytes that were held."""


class HoldCreation(Struct, frozen=True, kw_only=True):
    """A new hold with the task rows and audit events that are written together with it and its case."""

    hold: HoldRow
    tasks: tuple[TaskRow, ...] = ()
    events: tuple[AuditRow, ...] = ()


class HoldFilter(Struct, frozen=True, kw_only=True):
    """Which holds to list; None matches all."""

    status: HoldStatus | None = None
    source: str | None = None
    sink: str | None = None
    task_id: str | None = None
    policy_name: str | None = None
    detection_source: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""


class HoldStore(Protocol):
    """Changes and reads holds. `CaseStore.create_case` writes a new hold together with its case."""

    async def update_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a changed hold, its tasks and its audit events.

        Raises RelayConflict unless its `rev` is one more than the stored one.
        """
        ...

    async def make_releases_due(self, tenant: str, sink: str, *, now: datetime, after: datetime) -> int:
        """Make due the waiting deliveries of an agent's decided holds that are due after `after`.

        Return how many there were.
        """
        ...

    async def get_hold(self, hold_id: str) -> HoldRow | None:
        """Return one hold, or None if it does not exist."""
        ...

    async def get_hold_of_case(self, case_id: str) -> HoldRow | None:
        """Return the hold that a case decides."""
        ...

    async def list_holds(
        self, tenant: str, filter: HoldFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[HoldRow], int]:
        """Return a page of holds, counted from 0, and the total number that match."""
        ...
