"""The relay's configuration, tasks, holds and audit events."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from placet.errors import CaseConflict, RelayConflict
from placet.ports.audit_store import AuditFilter, AuditRow, SortOrder, Trace
from placet.ports.config_store import ConfigKind, ConfigRecord, ConfigRecords
from placet.ports.hold_store import HoldFilter, HoldRow
from placet.ports.row_validation import MAX_NUMBER, can_be_stored, check_page, check_rows
from placet.ports.task_store import TaskRow
from placet.stores.sql import relay_rows as rows
from placet.stores.sql.operation import (
    WriteOperation,
    build_single_statement,
    build_task_statements,
    list_audit_rows,
)
from placet.stores.sql.reader import LongReader, SqlReader
from placet.stores.sql.relay_filters import (
    COUNT_AUDIT_EVENTS,
    COUNT_HOLDS,
    COUNT_TRACES,
    SELECT_AUDIT_EVENTS,
    SELECT_FIRST_NUMBER,
    SELECT_HOLDS,
    SELECT_NUMBERED,
    SELECT_TRACES,
    RowQuery,
    build_event_query,
    build_hold_query,
    build_ordered_event_query,
    build_trace_query,
)
from placet.stores.sql.rows import Params, Row, to_micros
from placet.stores.sql.writer import Rows, Writer

INSERT_RECORD = "insert_record"
UPDATE_RECORD = "update_record"
DELETE_RECORD = "delete_record"
COUNT_RECORD_CHANGE = "count_record_change"
SELECT_RECORD = "select_record"
SELECT_RECORDS = "select_records"
SELECT_RECORDS_OF_TENANT = "select_records_of_tenant"
SELECT_TASK = "select_task"
DELETE_TASKS = "delete_tasks"
MAKE_RELEASES_DUE = "make_releases_due"
UPDATE_HOLD = "update_hold"
DELETE_HOLDS = "delete_holds"
SELECT_AUDIT_EVENT = "select_audit_event"
SELECT_AUDITED_TENANTS = "select_audited_tenants"
SELECT_TO_REDACT = "select_audit_events_to_redact"
REDACT_AUDIT_EVENT = "redact_audit_event"
DELETE_AUDIT_EVENTS = "delete_audit_events"
NOTE_DELETED_AUDIT_EVENTS = "note_deleted_audit_events"


class SqlRelayStore:
    """Implements `ConfigStore`, `TaskStore`, `HoldStore`, `AuditStore` and `RetentionStore`."""

    _reader: SqlReader
    _writer: Writer
    _long_reader: LongReader

    # Configuration

    async def save_record(self, record: ConfigRecord) -> None:
        """Write a record. Raises RelayConflict unless its `rev` is one more than the stored one (1: new)."""
        await self.change_records(save=(record,))

    async def delete_record(self, tenant: str, kind: ConfigKind, id: str, *, rev: int) -> None:
        """Delete a record. Raises RelayConflict unless it is stored with this `rev`."""
        if not can_be_stored(tenant, id, rev):
            raise RelayConflict()
        guards = ((DELETE_RECORD, (tenant, kind, id, rev)),)
        await self._write(WriteOperation(guards, ((COUNT_RECORD_CHANGE, ()),), tenants=(tenant,)))

    async def change_records(
        self, *, save: ConfigRecords = (), delete: ConfigRecords = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write and delete records with their audit events, all or none."""
        check_rows((*save, *delete, *events))
        guards = (
            *((DELETE_RECORD, (old.tenant, old.kind, old.id, old.rev)) for old in delete),
            *((INSERT_RECORD if new.rev == 1 else UPDATE_RECORD, rows.row_from_record(new)) for new in save),
        )
        tenants = tuple(dict.fromkeys(record.tenant for record in (*delete, *save)))
        await self._write(
            WriteOperation(
                guards, ((COUNT_RECORD_CHANGE, ()),), tenants=tenants, audit_events=list_audit_rows(events)
            )
        )

    async def get_record(self, tenant: str, kind: ConfigKind, id: str) -> ConfigRecord | None:
        """Return one record, or None if it does not exist."""
        row = await self._reader.row(SELECT_RECORD, (tenant, kind, id))
        return rows.record_from(row) if row else None

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> ConfigRecords:
        """Return all records of a kind, of one tenant or of all, in the order they were first saved."""
        if tenant is None:
            found = await self._reader.rows(SELECT_RECORDS, (kind,))
        else:
            found = await self._reader.rows(SELECT_RECORDS_OF_TENANT, (kind, tenant))
        return [rows.record_from(row) for row in found]

    def add_record_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop with the tenant whose records changed; None: any tenant's."""
        self._writer.add_record_listener(listener)

    # Tasks

    async def get_task(self, tenant: str, agent: str, kind: str, id: str) -> TaskRow | None:
        """Return the row with this id, or None if it does not exist."""
        row = await self._reader.row(SELECT_TASK, (tenant, agent, kind, id))
        return rows.task_from(row) if row else None

    async def save_tasks(self, tasks: Sequence[TaskRow], *, events: Sequence[AuditRow] = ()) -> None:
        """Write rows, new or changed, with their audit events, all or none."""
        check_rows((*tasks, *events))
        await self._write(
            WriteOperation(statements=(*build_task_statements(tasks),), audit_events=list_audit_rows(events))
        )

    # Holds

    async def update_hold(
        self, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write a changed hold, its tasks and its audit events."""
        check_rows((hold, *tasks, *events))
        guards = ((UPDATE_HOLD, rows.row_from_hold(hold)),)
        statements, audited = (*build_task_statements(tasks),), list_audit_rows(events)
        await self._write(WriteOperation(guards, statements, audit_events=audited))

    async def make_releases_due(self, tenant: str, sink: str, *, now: datetime, after: datetime) -> int:
        """Make due the waiting deliveries of an agent's decided holds that are due after `after`."""
        terms = (to_micros(now), to_micros(after), tenant, sink)
        return len(await self._writer.submit(build_single_statement(MAKE_RELEASES_DUE, terms)))

    async def get_hold(self, hold_id: str) -> HoldRow | None:
        """Return one hold, or None if it does not exist."""
        row = await self._reader.row(SELECT_HOLDS, (hold_id,), terms="WHERE id = ?")
        return rows.hold_from(row) if row else None

    async def get_hold_of_case(self, case_id: str) -> HoldRow | None:
        """Return the hold that a case decides."""
        row = await self._reader.row(SELECT_HOLDS, (case_id,), terms="WHERE case_id = ?")
        return rows.hold_from(row) if row else None

    async def list_holds(
        self, tenant: str, filter: HoldFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[HoldRow], int]:
        """Return a page of holds, counted from 0, and the total number that match."""
        check_rows((filter,))
        query = build_hold_query(tenant, filter)
        found, total = await self._read_page(SELECT_HOLDS, COUNT_HOLDS, query, page, size, order)
        return [rows.hold_from(row) for row in found], total

    # Audit

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Append events, all or none. Raises RelayConflict if an id is taken."""
        check_rows(events)
        await self._write(WriteOperation(audit_events=list_audit_rows(events)))

    async def list_audit_events(
        self, tenant: str, filter: AuditFilter, *, page: int, size: int, order: SortOrder = "newest"
    ) -> tuple[Sequence[AuditRow], int]:
        """Return a page of events, counted from 0, and the total number that match."""
        check_rows((filter,))
        query = build_event_query(tenant, filter)
        found, total = await self._read_page(
            SELECT_AUDIT_EVENTS, COUNT_AUDIT_EVENTS, query, page, size, order
        )
        return [rows.audit_from(row) for row in found], total

    async def get_audit_event(self, tenant: str, event_id: str) -> AuditRow | None:
        """Return one event of this tenant."""
        row = await self._reader.row(SELECT_AUDIT_EVENT, (tenant, event_id))
        return rows.audit_from(row) if row else None

    async def list_audit_events_after(
        self, tenant: str, filter: AuditFilter, *, after: int = 0, limit: int = 500
    ) -> Sequence[tuple[int, AuditRow]]:
        """Return numbered events in the order they were written, with a number above `after`."""
        check_rows((filter,))
        query = build_ordered_event_query(tenant, filter)

        async def read(reader: SqlReader) -> list[Row]:
            begin = after
            if filter.since is not None and not after:
                first = await reader.row(SELECT_FIRST_NUMBER, (tenant, to_micros(filter.since)))
                begin = (first[0] or 1) - 1
            params = (*query.params, begin, limit)
            return await reader.rows(SELECT_NUMBERED, params, terms=query.terms, index=query.index)

        return [(number, rows.audit_from(row)) for number, *row in await self._long_reader.run(read)]

    async def list_traces(
        self, tenant: str, filter: AuditFilter, *, page: int, size: int
    ) -> tuple[Sequence[Trace], int]:
        """Return the correlation ids of matching events, newest first, and how many there are."""
        check_page(page, size)
        check_rows((filter,))
        query = build_trace_query(tenant, filter)

        async def read(reader: SqlReader) -> tuple[list[Row], Row]:
            params = (*query.params, tenant, size, page * size)
            found = await reader.rows(SELECT_TRACES, params, terms=query.terms, index=query.index)
            count = await reader.row(COUNT_TRACES, query.params, terms=query.terms, index=query.index)
            return found, count

        found, total = await self._long_reader.run(read)
        return [rows.trace_from(row) for row in found], int(total[0]) if total else 0

    async def list_events_to_redact(self, tenant: str, *, before: datetime, limit: int) -> Sequence[AuditRow]:
        """Return events from before this time whose body has not been redacted yet."""
        terms = (tenant, to_micros(before), limit)
        found = await self._long_reader.run(lambda reader: reader.rows(SELECT_TO_REDACT, terms))
        return [rows.audit_from(row) for row in found]

    async def redact_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Replace the bodies of events and mark the events as redacted. No other field changes."""
        check_rows(events)
        redacted = ((REDACT_AUDIT_EVENT, (event.tenant, event.id, event.body)) for event in events)
        await self._write(WriteOperation(statements=(*redacted,)))

    async def list_audited_tenants(self) -> Sequence[str]:
        """Return every tenant that has events."""
        return [tenant for (tenant,) in await self._reader.rows(SELECT_AUDITED_TENANTS)]

    async def delete_older(self, tenant: str, *, before: datetime, limit: int = 1_000) -> int:
        """Delete events, settled holds and tasks from before this time, at most `limit` of each.

        Events are deleted from the beginning of their chain: one that was written after a younger one waits.
        """
        terms: Params = (tenant, to_micros(before), limit)
        events = (*terms, MAX_NUMBER)
        deletions = (
            WriteOperation(statements=((NOTE_DELETED_AUDIT_EVENTS, events), (DELETE_AUDIT_EVENTS, events))),
            build_single_statement(DELETE_HOLDS, terms),
            build_single_statement(DELETE_TASKS, terms),
        )
        deleted = await asyncio.gather(*map(self._write, deletions))
        return sum(map(len, deleted))

    # Shared

    async def _write(self, operation: WriteOperation) -> Rows:
        try:
            return await self._writer.submit(operation)
        except CaseConflict:
            raise RelayConflict() from None

    async def _read_page(
        self, select: str, count: str, query: RowQuery, page: int, size: int, order: SortOrder
    ) -> tuple[list[Row], int]:
        check_page(page, size)

        async def read(reader: SqlReader) -> tuple[list[Row], Row]:
            params, index = (*query.params, size, page * size), query.index
            found = await reader.rows(select, params, terms=query.build_page_terms(order), index=index)
            return found, await reader.row(count, query.params, terms=query.terms, index=index)

        found, total = await self._long_reader.run(read)
        return found, int(total[0]) if total else 0
