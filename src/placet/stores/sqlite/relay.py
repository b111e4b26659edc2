"""What the relay keeps, in SQLite."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from placet.errors import CaseConflict, RelayConflict, Unavailable
from placet.ports.audit_store import AuditFilter, AuditRow, SortOrder, Trace
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.ports.hold_store import HoldFilter, HoldRow
from placet.ports.storable import check_page, check_storable, storable
from placet.ports.task_store import TaskRow
from placet.stores.sqlite import relay_rows as rows
from placet.stores.sqlite.batch import Rows
from placet.stores.sqlite.operation import Operation, Statement, single
from placet.stores.sqlite.pages import PageReader
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.relay_filters import (
    COUNT_AUDIT_EVENTS,
    COUNT_CORRELATIONS,
    COUNT_HOLDS,
    SELECT_AUDIT_EVENTS,
    SELECT_FIRST_NUMBER,
    SELECT_HOLDS,
    SELECT_NUMBERED,
    SELECT_TRACES,
    Asked,
    asked_events,
    asked_holds,
    asked_traces,
    following_events,
    traces_query,
)
from placet.stores.sqlite.rows import Params, Row, micros
from placet.stores.sqlite.writer import Writer

INSERT_RECORD = QUERIES["insert_record"]
UPDATE_RECORD = QUERIES["update_record"]
DELETE_RECORD = QUERIES["delete_record"]
COUNT_RECORD_CHANGE = QUERIES["count_record_change"]
SELECT_RECORD_CHANGES = QUERIES["select_record_changes"]
SELECT_RECORD = QUERIES["select_record"]
SELECT_RECORDS = QUERIES["select_records"]
SELECT_RECORDS_OF_TENANT = QUERIES["select_records_of_tenant"]
UPSERT_TASK = QUERIES["upsert_task"]
SELECT_TASK = QUERIES["select_task"]
DELETE_TASKS = QUERIES["delete_tasks"]
INSERT_HOLD = QUERIES["insert_hold"]
UPDATE_HOLD = QUERIES["update_hold"]
DELETE_HOLDS = QUERIES["delete_holds"]
INSERT_AUDIT_EVENT = QUERIES["insert_audit_event"]
SELECT_AUDIT_EVENT = QUERIES["select_audit_event"]
SELECT_AUDITED_TENANTS = QUERIES["select_audited_tenants"]
SELECT_TO_REDACT = QUERIES["select_audit_events_to_redact"]
REDACT_AUDIT_EVENT = QUERIES["redact_audit_event"]
DELETE_AUDIT_EVENTS = QUERIES["delete_audit_events"]


class SqliteRelayStore:
    """The RelayStore over the readers and the one writer."""

    _reader: Reader
    _writer: Writer
    _pages: PageReader
    _record_changes: int

    # What operators set up

    async def save_record(self, record: ConfigRecord) -> None:
        """Write a record; raises RelayConflict unless its `rev` is one more than the stored one (1: new)."""
        await self.change_records(save=(record,))

    async def delete_record(self, tenant: str, kind: ConfigKind, id: str, *, rev: int) -> None:
        """Remove a record; raises RelayConflict unless it is stored with this `rev`."""
        if not storable(tenant, id, rev):
            raise RelayConflict()
        guards = ((DELETE_RECORD, (tenant, kind, id, rev)),)
        await self._write(Operation(guards, ((COUNT_RECORD_CHANGE, ()),), tenants=(tenant,)))

    async def change_records(
        self,
        *,
        save: Sequence[ConfigRecord] = (),
        delete: Sequence[ConfigRecord] = (),
        events: Sequence[AuditRow] = (),
    ) -> None:
        """Remove and write records, and tell of it in the audit, all or none; raises RelayConflict."""
        check_storable((*save, *delete, *events))
        guards = (
            *((DELETE_RECORD, (old.tenant, old.kind, old.id, old.rev)) for old in delete),
            *((INSERT_RECORD if new.rev == 1 else UPDATE_RECORD, rows.record_row(new)) for new in save),
        )
        tenants = tuple(dict.fromkeys(record.tenant for record in (*delete, *save)))
        await self._write(Operation(guards, (*_appended(events), (COUNT_RECORD_CHANGE, ())), tenants=tenants))

    async def get_record(self, tenant: str, kind: ConfigKind, id: str) -> ConfigRecord | None:
        """One record."""
        row = self._reader.row(SELECT_RECORD, (tenant, kind, id))
        return rows.record_from(row) if row else None

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> Sequence[ConfigRecord]:
        """All records of a kind, of one tenant or of all, in the order they were first saved."""
        if tenant is None:
            found = self._reader.rows(SELECT_RECORDS, (kind,))
        else:
            found = self._reader.rows(SELECT_RECORDS_OF_TENANT, (kind, tenant))
        return [rows.record_from(row) for row in found]

    def add_record_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop after records changed, with their tenant; None: of any tenant."""
        self._writer.on_records(listener)

    def _look_at_records(self) -> None:
        """Another process wrote: tell of its changes to records, if it made any."""
        try:
            changes = self._count_record_changes()
        except Unavailable:
            changes = -1  # whoever hears of it reads them, and is told what is wrong
        if changes != self._record_changes:
            self._record_changes = changes
            self._writer.tell_of_records(None)

    def _count_record_changes(self) -> int:
        row = self._reader.row(SELECT_RECORD_CHANGES)
        return int(row[0]) if row else 0

    # Tasks

    async def get_task(self, tenant: str, agent: str, kind: str, id: str) -> TaskRow | None:
        """What is known under this name."""
        row = self._reader.row(SELECT_TASK, (tenant, agent, kind, id))
        return rows.task_from(row) if row else None

    async def save_tasks(self, tasks: Sequence[TaskRow], *, events: Sequence[AuditRow] = ()) -> None:
        """Write rows, new or changed, with their audit events, all or none."""
        check_storable((*tasks, *events))
        await self._write(Operation(statements=(*_named(tasks), *_appended(events))))

    # Holds

    async def add_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a new hold with what belongs to it; raises RelayConflict if its id or its case is taken."""
        await self._write_hold(INSERT_HOLD, hold, tasks, events)

    async def update_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a changed hold with what belongs to it; raises RelayConflict unless its `rev` is the next."""
        await self._write_hold(UPDATE_HOLD, hold, tasks, events)

    async def _write_hold(
        self, sql: str, hold: HoldRow, tasks: Sequence[TaskRow], events: Sequence[AuditRow]
    ) -> None:
        check_storable((hold, *tasks, *events))
        statements = (*_named(tasks), *_appended(events))
        await self._write(Operation(((sql, rows.hold_row(hold)),), statements))

    async def get_hold(self, hold_id: str) -> HoldRow | None:
        """One hold."""
        row = self._reader.row(f"{SELECT_HOLDS} WHERE id = ?", (hold_id,))
        return rows.hold_from(row) if row else None

    async def get_hold_of_case(self, case_id: str) -> HoldRow | None:
        """The hold that a case decides."""
        row = self._reader.row(f"{SELECT_HOLDS} WHERE case_id = ?", (case_id,))
        return rows.hold_from(row) if row else None

    async def list_holds(
        self, tenant: str, asked: HoldFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[HoldRow], int]:
        """A page of holds, counted from 0, and how many there are in all."""
        check_storable((asked,))
        fitting = asked_holds(tenant, asked)
        found, total = await self._page(SELECT_HOLDS, COUNT_HOLDS, fitting, page, size, order)
        return [rows.hold_from(row) for row in found], total

    # Audit

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Append events, all or none; raises RelayConflict if an id is taken."""
        check_storable(events)
        await self._write(Operation(statements=(*_appended(events),)))

    async def list_audit_events(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[AuditRow], int]:
        """A page of events, counted from 0, and how many there are in all."""
        check_storable((asked,))
        fitting = asked_events(tenant, asked)
        found, total = await self._page(SELECT_AUDIT_EVENTS, COUNT_AUDIT_EVENTS, fitting, page, size, order)
        return [rows.audit_from(row) for row in found], total

    async def get_audit_event(self, tenant: str, event_id: str) -> AuditRow | None:
        """One event of this tenant."""
        row = self._reader.row(SELECT_AUDIT_EVENT, (tenant, event_id))
        return rows.audit_from(row) if row else None

    async def list_audit_events_after(
        self, tenant: str, asked: AuditFilter, *, after: int = 0, limit: int = 500
    ) -> Sequence[tuple[int, AuditRow]]:
        """Events in the order they were written with a number above `after`, to read very many bit by bit."""
        check_storable((asked,))
        fitting = following_events(tenant, asked)

        def look(reader: Reader) -> list[Row]:
            begin = after
            if asked.since is not None and not after:
                begin = (reader.row(SELECT_FIRST_NUMBER, (tenant, micros(asked.since)))[0] or 1) - 1
            return reader.rows(f"{SELECT_NUMBERED} {fitting.source}", (*fitting.params, begin, limit))

        return [(number, rows.audit_from(row)) for number, *row in await self._pages.ask(look)]

    async def list_traces(
        self, tenant: str, asked: AuditFilter, *, page: int, size: int
    ) -> tuple[Sequence[Trace], int]:
        """Correlation ids with events that fit, the newest first, and how many there are in all."""
        check_page(page, size)
        check_storable((asked,))
        fitting = asked_traces(tenant, asked)
        traces, count = (traces_query(fitting, sql) for sql in (SELECT_TRACES, COUNT_CORRELATIONS))

        def look(reader: Reader) -> tuple[list[Row], Row]:
            found = reader.rows(traces, (*fitting.params, tenant, size, page * size))
            return found, reader.row(count, fitting.params)

        found, total = await self._pages.ask(look)
        return [rows.trace_from(row) for row in found], int(total[0]) if total else 0

    async def list_events_to_redact(self, tenant: str, *, before: datetime, limit: int) -> Sequence[AuditRow]:
        """Events older than this whose body was not redacted yet, for `replace_events`."""
        terms = (tenant, micros(before), limit)
        found = await self._pages.ask(lambda reader: reader.rows(SELECT_TO_REDACT, terms))
        return [rows.audit_from(row) for row in found]

    async def redact_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Write other bodies into events and mark them as redacted; nothing else of them changes."""
        check_storable(events)
        redacted = ((REDACT_AUDIT_EVENT, (event.tenant, event.id, event.body)) for event in events)
        await self._write(Operation(statements=(*redacted,)))

    async def list_audited_tenants(self) -> Sequence[str]:
        """Every tenant that has events."""
        return [tenant for (tenant,) in self._reader.rows(SELECT_AUDITED_TENANTS)]

    async def delete_older(self, tenant: str, *, before: datetime, limit: int = 1_000) -> int:
        """Remove events, settled holds and tasks that are older, at most `limit` of each."""
        terms: Params = (tenant, micros(before), limit)
        deletions = (DELETE_AUDIT_EVENTS, DELETE_HOLDS, DELETE_TASKS)
        gone = await asyncio.gather(*(self._write(single(sql, terms)) for sql in deletions))
        return sum(map(len, gone))

    # All of them

    async def _write(self, operation: Operation) -> Rows:
        try:
            return await self._writer.submit(operation)
        except CaseConflict:
            raise RelayConflict() from None

    async def _page(
        self, select: str, count: str, asked: Asked, page: int, size: int, order: SortOrder
    ) -> tuple[list[Row], int]:
        check_page(page, size)

        def look(reader: Reader) -> tuple[list[Row], Row]:
            found = reader.rows(asked.page(select, order), (*asked.params, size, page * size))
            return found, reader.row(asked.count(count), asked.params)

        found, total = await self._pages.ask(look)
        return found, int(total[0]) if total else 0


def _named(tasks: Iterable[TaskRow]) -> Iterable[Statement]:
    return ((UPSERT_TASK, rows.task_row(task)) for task in tasks)


def _appended(events: Iterable[AuditRow]) -> Iterable[Statement]:
    return ((INSERT_AUDIT_EVENT, rows.audit_row(event)) for event in events)
