"""The whole log, as its verification reads it, and checkpoints."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from placet.cases.audit_chain import AuditHead, AuditPoint, ChainedAuditRow
from placet.cases.case_verification import StoredCase, StoredGrant
from placet.cases.events import Event
from placet.ports.log_store import LogEntry, LogSize
from placet.stores.sql.grants import grant_from
from placet.stores.sql.operation import build_single_statement
from placet.stores.sql.reader import LongReader, SqlReader
from placet.stores.sql.rows import Row, datetime_from, event_from
from placet.stores.sql.writer import Writer

SELECT_CASE_NUMBER = "select_case_number"
SELECT_CASE_SIZES = "select_case_sizes"
SELECT_STORED_CASES = "select_stored_cases"
SELECT_STORED_EVENTS = "select_stored_events"
SELECT_STORED_GRANTS = "select_stored_grants"
SELECT_LOG_ENTRIES = "select_log_entries"
SELECT_STRAY_ROWS = "select_stray_rows"
SELECT_LOG_SIZE = "select_log_size"
SELECT_AUDIT_HEADS = "select_audit_heads"
SELECT_CHAINED_AUDIT_ROWS = "select_chained_audit_rows"
INSERT_CHECKPOINT = "insert_checkpoint"
SELECT_CHECKPOINTS = "select_checkpoints"
SELECT_LAST_CHECKPOINT = "select_last_checkpoint"

MAX_EVENTS_PER_PAGE = 2_000
_LAST_MOMENT = 253_402_300_799_999_999  # the end of the year 9999


class SqlLogStore:
    """Implements `LogStore`."""

    _writer: Writer
    _long_reader: LongReader

    async def find_stored_case(self, case_id: str) -> StoredCase | None:
        """Return all rows of a case, or None if it does not exist."""

        async def read(reader: SqlReader) -> StoredCase | None:
            row = await reader.row(SELECT_CASE_NUMBER, (case_id,))
            return await _read_one(reader, row[0]) if row else None

        return await self._long_reader.run(read, at_once=True)

    async def list_stored_cases(self, *, after: int, limit: int = 50) -> Sequence[StoredCase]:
        """Return cases with a number above `after`, in order; fewer if they have many events."""

        async def read(reader: SqlReader) -> list[StoredCase]:
            sizes = await reader.rows(SELECT_CASE_SIZES, (after, limit))
            numbers = [number for number, _ in sizes[: _count_for_page(sizes)]]
            if not numbers:
                return []
            try:
                return await _read_cases(reader, after, numbers[-1])
            except UnicodeDecodeError:
                return [await _read_one(reader, number) for number in numbers]

        return await self._long_reader.run(read, at_once=True)

    async def list_log_entries(self, *, after: int, limit: int = 5_000) -> Sequence[LogEntry]:
        """Return the events of all cases with a number above `after`, in the order they were written."""
        found = await self._long_reader.run(lambda reader: reader.rows(SELECT_LOG_ENTRIES, (after, limit)))
        return [
            LogEntry(number=number, case_number=case_number, case_id=case_id, digest=digest)
            for number, case_number, case_id, digest in found
        ]

    async def list_stray_rows(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        """Return the table and case number of rows that belong to no stored case."""
        found = await self._long_reader.run(lambda reader: reader.rows(SELECT_STRAY_ROWS, (limit,)))
        return [(table, number) for table, number in found]

    async def count_log(self) -> LogSize:
        """Return how many cases and events there are."""
        cases, events = await self._long_reader.run(lambda reader: reader.row(SELECT_LOG_SIZE))
        return LogSize(cases=cases, events=events)

    async def list_audit_heads(self) -> Mapping[str, AuditHead]:
        """Return where the chain of audit events of each tenant begins and ends."""
        found = await self._long_reader.run(lambda reader: reader.rows(SELECT_AUDIT_HEADS))
        return {
            tenant: AuditHead(last=AuditPoint(count, digest), deleted=AuditPoint(deleted, deleted_digest))
            for tenant, count, digest, deleted, deleted_digest in found
        }

    async def list_chained_audit_rows(self, *, after: int, limit: int = 100) -> Sequence[ChainedAuditRow]:
        """Return audit events of all tenants in the order written, with a number above `after`."""
        found = await self._long_reader.run(
            lambda reader: reader.rows(SELECT_CHAINED_AUDIT_ROWS, (after, limit))
        )
        return [_read_audit_row(row) for row in found]

    async def add_checkpoint(self, document: bytes, *, made_at: int) -> None:
        """Append a checkpoint."""
        await self._writer.submit(build_single_statement(INSERT_CHECKPOINT, (made_at, document)))

    async def list_checkpoints(self, *, after: int = 0, limit: int = 500) -> Sequence[tuple[int, bytes]]:
        """Return numbered checkpoints, oldest first."""
        found = await self._long_reader.run(lambda reader: reader.rows(SELECT_CHECKPOINTS, (after, limit)))
        return [(number, document) for number, document in found]

    async def get_last_checkpoint(self) -> bytes | None:
        """Return the newest checkpoint, or None if there is none."""
        row = await self._long_reader.run(lambda reader: reader.row(SELECT_LAST_CHECKPOINT))
        return row[0] if row else None


def _count_for_page(sizes: Sequence[tuple[int, int]]) -> int:
    """Return how many cases fit into a page; a case has as many events as its version says."""
    events = 0
    for count, (_, version) in enumerate(sizes, start=1):
        events += max(1, version)
        if events >= MAX_EVENTS_PER_PAGE:
            return count
    return len(sizes)


async def _read_one(reader: SqlReader, number: int) -> StoredCase:
    try:
        return (await _read_cases(reader, number - 1, number))[0]
    except UnicodeDecodeError:
        return StoredCase(
            number=number,
            id=f"number {number}",
            owner=None,
            status="",
            version=0,
            due_at=None,
            waits_until=None,
            closed_at=None,
            state=b"",
            offer=None,
        )


async def _read_cases(reader: SqlReader, after: int, last: int) -> list[StoredCase]:
    cases = await reader.rows(SELECT_STORED_CASES, (after, last))
    ids = {row[0]: row[1] for row in cases}
    events = _group(await reader.rows(SELECT_STORED_EVENTS, (after, last)))
    grants = _group(await reader.rows(SELECT_STORED_GRANTS, (after, last)))
    return [
        StoredCase(
            number=number,
            id=id,
            owner=owner,
            status=status,
            version=version,
            due_at=datetime_from(_clip(due_at)),
            waits_until=datetime_from(_clip(waits_until)),
            closed_at=datetime_from(_clip(closed_at)),
            state=state,
            offer=offer,
            events=[_read_event(ids[number], row) for row in events.get(number, ())],
            grants=[_read_grant(ids[number], row) for row in grants.get(number, ())],
        )
        for number, id, owner, status, version, due_at, waits_until, closed_at, state, offer in cases
    ]


def _group(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Return the rows of each case, without their case number."""
    return {
        number: [row[1:] for row in group] for number, group in groupby(rows, key=lambda row: int(row[0]))
    }


def _clip(micros: int | None) -> int | None:
    """Return a time that can be read; one that cannot was not written by this program."""
    return None if micros is None else max(0, min(micros, _LAST_MOMENT))


def _read_event(case_id: str, row: Row) -> Event:
    seq, type, at, *rest = row
    return event_from((case_id, seq, type, _clip(at), *rest))


def _read_grant(case_id: str, row: Row) -> StoredGrant:
    id, owner, tool, agent, patterns, uses, used, granted_at, expires_at, *rest = row
    granted_by, call_id, revoked_at, revoked_by, open_until = rest
    times = (_clip(granted_at), _clip(expires_at))
    head = (id, case_id, owner, tool, agent)
    tail = (uses, used, *times, granted_by, call_id, _clip(revoked_at), revoked_by)
    try:
        grant = grant_from((*head, patterns, *tail))
    except (msgspec.DecodeError, RecursionError):
        grant = grant_from((*head, b'{"unreadable":{}}', *tail))
    return StoredGrant(grant=grant, open_until=datetime_from(_clip(open_until)))


def _read_audit_row(row: Row) -> ChainedAuditRow:
    """Convert a row of `select_chained_audit_rows`."""
    number, seq, previous, id, tenant, *columns, body, salt, redacted = row
    body_digest, outline_digest, digest = columns[-3:]
    return ChainedAuditRow(
        number=number,
        seq=seq,
        previous=previous,
        id=id,
        tenant=tenant,
        columns=tuple(columns[:-3]),
        body_digest=body_digest,
        outline_digest=outline_digest,
        digest=digest,
        redacted=redacted,
        body=body,
        salt=salt,
    )
