"""What the relay keeps, in this process's memory."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from placet.errors import RelayConflict, Unavailable
from placet.ports.audit_store import AuditFilter, AuditRow, SortOrder, Trace
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.ports.hold_store import HoldFilter, HoldRow
from placet.ports.storable import check_page, check_storable
from placet.ports.task_store import TaskRow
from placet.stores.telling import Listener, tell

K = TypeVar("K")
T = TypeVar("T")
RecordKey = tuple[str, str, str]


class MemoryRelayStore:
    """A RelayStore of plain dictionaries."""

    def __init__(self) -> None:
        self._records: dict[RecordKey, ConfigRecord] = {}
        self._record_listeners: list[Listener] = []
        self._tasks: dict[tuple[str, str, str, str], TaskRow] = {}
        self._holds: dict[str, HoldRow] = {}
        self._audit: dict[str, tuple[int, AuditRow]] = {}
        self._audited = 0
        self._redacted: set[str] = set()
        self._closed = False

    # What operators set up

    async def save_record(self, record: ConfigRecord) -> None:
        """Write a record; raises RelayConflict unless its `rev` is one more than the stored one (1: new)."""
        await self.change_records(save=(record,))

    async def delete_record(self, tenant: str, kind: ConfigKind, id: str, *, rev: int) -> None:
        """Remove a record; raises RelayConflict unless it is stored with this `rev`."""
        stored = await self.get_record(tenant, kind, id)
        if stored is None or stored.rev != rev:
            raise RelayConflict()
        await self.change_records(delete=(stored,))

    async def change_records(
        self,
        *,
        save: Sequence[ConfigRecord] = (),
        delete: Sequence[ConfigRecord] = (),
        events: Sequence[AuditRow] = (),
    ) -> None:
        """Remove and write records, and tell of it in the audit, all or none; raises RelayConflict."""
        self._check_open()
        check_storable((*save, *delete, *events))
        records = _changed(self._records, save, delete)
        self._guard_events(events)
        self._records = records
        self._append(events)
        tell(self._record_listeners, dict.fromkeys(record.tenant for record in (*delete, *save)))

    async def get_record(self, tenant: str, kind: ConfigKind, id: str) -> ConfigRecord | None:
        """One record."""
        self._check_open()
        return self._records.get((tenant, kind, id))

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> Sequence[ConfigRecord]:
        """All records of a kind, of one tenant or of all, in the order they were first saved."""
        self._check_open()
        kept = self._records.values()
        return [record for record in kept if record.kind == kind and tenant in (None, record.tenant)]

    def add_record_listener(self, listener: Listener) -> None:
        """Call `listener` in the event loop after records changed, with their tenant."""
        self._record_listeners.append(listener)

    # Tasks

    async def get_task(self, tenant: str, agent: str, kind: str, id: str) -> TaskRow | None:
        """What is known under this name."""
        self._check_open()
        return self._tasks.get((tenant, agent, kind, id))

    async def save_tasks(self, tasks: Sequence[TaskRow], *, events: Sequence[AuditRow] = ()) -> None:
        """Write entries in the place of earlier ones of their names, all or none."""
        self._check_open()
        check_storable((*tasks, *events))
        self._guard_events(events)
        self._name(tasks)
        self._append(events)

    # Holds

    async def add_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a new hold with what belongs to it; raises RelayConflict if its id or its case is taken."""
        self._check_open()
        check_storable((hold, *tasks, *events))
        if hold.id in self._holds or await self.get_hold_of_case(hold.case_id) is not None:
            raise RelayConflict()
        self._put_hold(hold, tasks, events)

    async def update_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a changed hold with what belongs to it; raises RelayConflict unless its `rev` is the next."""
        self._check_open()
        check_storable((hold, *tasks, *events))
        kept = self._holds.get(hold.id)
        if kept is None or (kept.tenant, kept.case_id, kept.rev + 1) != (hold.tenant, hold.case_id, hold.rev):
            raise RelayConflict()
        self._put_hold(hold, tasks, events)

    async def get_hold(self, hold_id: str) -> HoldRow | None:
        """One hold."""
        self._check_open()
        return self._holds.get(hold_id)

    async def get_hold_of_case(self, case_id: str) -> HoldRow | None:
        """The hold that a case decides."""
        self._check_open()
        return next((hold for hold in self._holds.values() if hold.case_id == case_id), None)

    async def list_holds(
        self, tenant: str, asked: HoldFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[HoldRow], int]:
        """A page of holds, counted from 0, and how many there are in all."""
        self._check_open()
        check_page(page, size)
        check_storable((asked,))
        found = [hold for hold in self._holds.values() if hold.tenant == tenant and _hold_fits(hold, asked)]
        return _page(found, lambda hold: hold.created_at, page, size, order), len(found)

    # Audit

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Append events, all or none; raises RelayConflict if an id is taken."""
        self._check_open()
        check_storable(events)
        self._guard_events(events)
        self._append(events)

    async def list_audit_events(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[AuditRow], int]:
        """A page of events, counted from 0, and how many there are in all."""
        self._check_open()
        check_page(page, size)
        found = [event for _, event in self._asked(tenant, asked)]
        return _page(found, lambda event: event.at, page, size, order), len(found)

    async def get_audit_event(self, tenant: str, event_id: str) -> AuditRow | None:
        """One event of this tenant."""
        self._check_open()
        _, event = self._audit.get(event_id, (0, None))
        return event if event is not None and event.tenant == tenant else None

    async def list_audit_events_after(
        self, tenant: str, asked: AuditFilter, *, after: int = 0, limit: int = 500
    ) -> Sequence[tuple[int, AuditRow]]:
        """Events in the order they were written with a number above `after`, to read very many bit by bit."""
        self._check_open()
        return [(number, event) for number, event in self._asked(tenant, asked) if number > after][:limit]

    async def list_traces(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int
    ) -> tuple[Sequence[Trace], int]:
        """Correlation ids with events that fit, the newest first, and how many there are in all."""
        self._check_open()
        check_page(page, size)
        ids = {event.correlation_id for _, event in self._asked(tenant, asked)}
        moments: dict[str, list[datetime]] = {}
        for _, event in self._asked(tenant, AuditFilter()):
            if event.correlation_id in ids:
                moments.setdefault(event.correlation_id, []).append(event.at)
        traces = [
            Trace(correlation_id=id, began_at=min(at), ended_at=max(at), events=len(at))
            for id, at in moments.items()
        ]
        return _page(traces, lambda trace: trace.ended_at, page, size, "newest"), len(traces)

    async def list_events_to_redact(self, tenant: str, *, before: datetime, limit: int) -> Sequence[AuditRow]:
        """Events older than this whose body was not redacted yet, for `replace_events`."""
        self._check_open()
        old = [event for _, event in self._asked(tenant, AuditFilter(until=before))]
        old.sort(key=lambda event: event.at)
        return [event for event in old if event.id not in self._redacted][:limit]

    async def redact_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Write other bodies into events and mark them as redacted; nothing else of them changes."""
        self._check_open()
        check_storable(events)
        for event in events:
            number, kept = self._audit.get(event.id, (0, None))
            if kept is not None and kept.tenant == event.tenant:
                self._audit[event.id] = (number, replace(kept, body=event.body))
                self._redacted.add(event.id)

    async def list_audited_tenants(self) -> Sequence[str]:
        """Every tenant that has events."""
        self._check_open()
        return sorted({event.tenant for _, event in self._audit.values()})

    async def delete_older(self, tenant: str, *, before: datetime, limit: int = 1_000) -> int:
        """Remove events, settled holds and tasks that are older, at most `limit` of each."""
        self._check_open()
        found, _ = await self.list_audit_events(
            tenant, AuditFilter(until=before), page=0, size=limit, order="oldest"
        )
        events = [event.id for event in found]
        holds = [hold.id for hold in self._holds.values() if hold.tenant == tenant and _over(hold, before)]
        old = [key for key, task in self._tasks.items() if task.kind != "context" and task.saved_at < before]
        free = [key for key in old if key[0] == tenant and not self._waits(key)]
        self._redacted.difference_update(events)
        return (
            _remove(self._audit, events)
            + _remove(self._holds, holds[:limit])
            + _remove(self._tasks, free[:limit])
        )

    # All of them

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")

    def _name(self, tasks: Iterable[TaskRow]) -> None:
        self._tasks.update(((task.tenant, task.agent, task.kind, task.id), task) for task in tasks)

    def _put_hold(self, hold: HoldRow, tasks: Sequence[TaskRow], events: Sequence[AuditRow]) -> None:
        self._guard_events(events)
        self._holds[hold.id] = hold
        self._name(tasks)
        self._append(events)

    def _guard_events(self, events: Sequence[AuditRow]) -> None:
        ids = [event.id for event in events]
        if len({*ids}) < len(ids) or not self._audit.keys().isdisjoint(ids):
            raise RelayConflict()

    def _append(self, events: Iterable[AuditRow]) -> None:
        for event in events:
            self._audited += 1
            self._audit[event.id] = (self._audited, event)

    def _asked(self, tenant: str, asked: AuditFilter) -> list[tuple[int, AuditRow]]:
        check_storable((asked,))
        kept = self._audit.values()
        return [item for item in kept if item[1].tenant == tenant and _event_fits(item[1], asked)]

    def _waits(self, key: tuple[str, str, str, str]) -> bool:
        tenant, agent, _, id = key
        return any(
            (hold.tenant, hold.sink, hold.task_id, hold.status) == (tenant, agent, id, "PENDING")
            for hold in self._holds.values()
        )


def _changed(
    records: dict[RecordKey, ConfigRecord], save: Iterable[ConfigRecord], delete: Iterable[ConfigRecord]
) -> dict[RecordKey, ConfigRecord]:
    records = {**records}
    for record in delete:
        gone = records.pop((record.tenant, record.kind, record.id), None)
        if gone is None or gone.rev != record.rev:
            raise RelayConflict()
    for record in save:
        stored = records.get((record.tenant, record.kind, record.id))
        if record.rev != (1 if stored is None else stored.rev + 1):
            raise RelayConflict()
        records[record.tenant, record.kind, record.id] = record
    return records


def _hold_fits(hold: HoldRow, asked: HoldFilter) -> bool:
    names = ("status", "source", "sink", "task_id", "policy_name", "detection_source", "correlation_id")
    return _between(hold.created_at, asked.since, asked.until) and _equal(hold, asked, names)


def _event_fits(event: AuditRow, asked: AuditFilter) -> bool:
    names = ("action", "transport", "source_agent", "source_user", "sink_agent", "correlation_id", "task_id")
    return (
        (not asked.types or event.type in asked.types)
        and _between(event.at, asked.since, asked.until)
        and _equal(event, asked, names)
    )


def _equal(row: object, asked: object, names: Iterable[str]) -> bool:
    return all(getattr(asked, name) in (None, getattr(row, name)) for name in names)


def _between(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or since <= at) and (until is None or at < until)


def _over(hold: HoldRow, before: datetime) -> bool:
    ended_at = hold.resolved_at or hold.created_at
    return hold.status != "PENDING" and max(hold.created_at, ended_at) < before


def _page(
    found: Sequence[T], moment: Callable[[T], datetime], page: int, size: int, order: SortOrder
) -> list[T]:
    ordered = sorted(found, key=moment)
    if order == "newest":
        ordered.reverse()
    return ordered[page * size :][:size]


def _remove(kept: dict[K, T], keys: Iterable[K]) -> int:
    return len([kept.pop(key) for key in keys])
