"""What the relay keeps, in rows that a store need not understand; engines and SQL stay behind it.

Every write is one transaction. A write that returns is on disk; a write that raises changed nothing. What the
store has to search by is a field of its own, everything else is in `body`, which only the relay reads.

What no engine could keep (`ports/storable.py`) is refused with ValidationFailed, in rows and in filters.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

RecordKind = Literal[
    "agent", "caller", "group", "policy", "policy_group", "binding", "book", "roster", "tenant"
]
HoldStatus = Literal["PENDING", "APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
TaskKind = Literal["task", "context", "webhook", "webhooks"]
"""Tasks and conversations; webhooks by their own ids, and which of them are a task's."""
Order = Literal["newest", "oldest"]


class Record(Struct, frozen=True, kw_only=True):
    """One thing that an operator set up: an agent, a policy in one version, a binding."""

    tenant: str
    kind: RecordKind
    id: str
    rev: int
    """Counts the changes, from 1."""
    body: bytes
    saved_at: datetime


class TaskRow(Struct, frozen=True, kw_only=True):
    """A task or a conversation as its caller names it, and what the relay knows of it, webhooks included."""

    tenant: str
    agent: str
    kind: TaskKind
    id: str
    body: bytes
    saved_at: datetime


class HoldRow(Struct, frozen=True, kw_only=True):
    """A message that waits, or waited, for a person."""

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


class AuditRow(Struct, frozen=True, kw_only=True):
    """Something that happened to a message."""

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


class HoldFilter(Struct, frozen=True, kw_only=True):
    """Which holds are asked for; None asks for all."""

    status: HoldStatus | None = None
    source: str | None = None
    sink: str | None = None
    task_id: str | None = None
    policy_name: str | None = None
    detection_source: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    """When the hold was made, and so is `until`, which is not included."""
    until: datetime | None = None


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which events are asked for; None asks for all. `until` is not included, `since` is."""

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
    """The events of one correlation id, in numbers."""

    correlation_id: str
    began_at: datetime
    ended_at: datetime
    events: int


class RelayStore(Protocol):
    """Everything the relay keeps."""

    # What operators set up

    async def save_record(self, record: Record) -> None:
        """Write a record; raises RelayConflict unless its `rev` is one more than the stored one (1: new)."""
        ...

    async def delete_record(self, tenant: str, kind: RecordKind, id: str, *, rev: int) -> None:
        """Remove a record; raises RelayConflict unless it is stored with this `rev`."""
        ...

    async def change_records(
        self, *, save: Sequence[Record] = (), delete: Sequence[Record] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write and remove records, and tell of it in the audit, all or none.

        Raises RelayConflict unless each one to save has the `rev` after the stored one, and each one to
        delete the stored one.
        """
        ...

    async def record(self, tenant: str, kind: RecordKind, id: str) -> Record | None:
        """One record."""
        ...

    async def records(self, kind: RecordKind, tenant: str | None = None) -> Sequence[Record]:
        """All records of a kind, of one tenant or of all, in the order they were first saved."""
        ...

    def on_records(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop after records changed, with their tenant; None: of any tenant.

        Changes by other processes are told too, within a second, as None.
        """
        ...

    # Tasks

    async def task(self, tenant: str, agent: str, kind: str, id: str) -> TaskRow | None:
        """What is known under this name."""
        ...

    async def save_tasks(self, tasks: Sequence[TaskRow]) -> None:
        """Write entries in the place of earlier ones of their names, all or none."""
        ...

    # Holds

    async def add_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a new hold with what belongs to it; raises RelayConflict if its id or its case is taken."""
        ...

    async def change_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a changed hold with what belongs to it; raises RelayConflict unless its `rev` is the next."""
        ...

    async def hold(self, hold_id: str) -> HoldRow | None:
        """One hold."""
        ...

    async def hold_of_case(self, case_id: str) -> HoldRow | None:
        """The hold that a case decides."""
        ...

    async def holds(
        self, tenant: str, asked: HoldFilter, *, page: int, size: int, order: Order = "newest"
    ) -> tuple[Sequence[HoldRow], int]:
        """A page of holds, counted from 0, and how many there are in all."""
        ...

    # Audit

    async def add_events(self, events: Sequence[AuditRow]) -> None:
        """Append events, all or none; raises RelayConflict if an id is taken."""
        ...

    async def audit(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int, order: Order = "newest"
    ) -> tuple[Sequence[AuditRow], int]:
        """A page of events, counted from 0, and how many there are in all."""
        ...

    async def event(self, tenant: str, event_id: str) -> AuditRow | None:
        """One event of this tenant."""
        ...

    async def audit_after(
        self, tenant: str, asked: AuditFilter, *, after: int = 0, limit: int = 500
    ) -> Sequence[tuple[int, AuditRow]]:
        """Events in the order they were written with a number above `after`, to read very many bit by bit."""
        ...

    async def traces(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int
    ) -> tuple[Sequence[Trace], int]:
        """Correlation ids with events that fit, the newest first, and how many there are in all.

        Each with the numbers of all its events, also of those that were not asked for.
        """
        ...

    async def redact_events(self, tenant: str, *, before: datetime, limit: int) -> Sequence[AuditRow]:
        """Events older than this whose body was not redacted yet, for `replace_events`."""
        ...

    async def replace_events(self, events: Sequence[AuditRow]) -> None:
        """Write other bodies into events and mark them as redacted; nothing else of them changes."""
        ...

    async def audited_tenants(self) -> Sequence[str]:
        """Every tenant that has events."""
        ...

    async def forget(self, tenant: str, *, before: datetime, limit: int = 1_000) -> int:
        """Remove events, settled holds and tasks that are older, at most `limit` of each.

        Tasks of holds that wait for a person stay, and so do conversations: a forgotten one could be named
        again by anybody, as if it were new. The three go one after the other, not in one transaction.
        Returns how many went; ask again until it is 0, so that nobody waits for a million of them.
        """
        ...
