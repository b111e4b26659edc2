"""One transaction with the writes of many operations: each succeeds or is refused by itself.

Every statement runs once, for the rows of all operations. A transaction that adds to the log locks the log's
row first. So the log's numbers have no gaps, and they are committed in their order on all nodes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import asyncpg
from msgspec import Struct

from placet.cases.audit_chain import compute_link_digest
from placet.cases.case import NO_EVENT
from placet.errors import CaseConflict
from placet.stores.postgres.connection import PostgresConnection
from placet.stores.postgres.outages import OUTAGES
from placet.stores.postgres.queries import (
    KEYS,
    LOG_STATEMENTS,
    NUMBERED,
    ORDER,
    QUERIES,
    SET_STATEMENTS,
    escape,
    transpose,
    unescape,
)
from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.rows import Params
from placet.stores.sql.writer import Rows

LOCK_LOG, MOVE_LOG = QUERIES["lock_log"], QUERIES["move_log"]
LOCK_AUDIT_HEADS = QUERIES["lock_audit_heads"]
INSERT_AUDIT_EVENT, MOVE_AUDIT_HEAD = QUERIES["insert_audit_event"], QUERIES["move_audit_head"]

BatchedOutcome = Rows | CaseConflict


class EventRange(Struct, frozen=True):
    """The numbers of the log's events that a transaction wrote; empty if `last` is before `first`."""

    first: int
    last: int


class BatchResult(Struct, frozen=True):
    """How the operations of a batch ended, in their order, and the events they wrote."""

    outcomes: list[BatchedOutcome]
    events: EventRange


class CommitUncertain(ConnectionError):
    """The connection ended during a commit: the writes may be there or not."""


class _Refused(Exception):
    """Operations whose guards did not all hold, while some did: they are undone with the whole batch."""

    def __init__(self, places: set[int]) -> None:
        super().__init__()
        self.places = places


class _LogHead:
    """The last numbers of the log, while the transaction holds its lock."""

    def __init__(self, row: Sequence[Any]) -> None:
        self.cases, self.events, self.audit_events, _ = row
        self.first_event = self.events + 1

    def next_audit_number(self) -> int:
        """Return the number of the next audit event."""
        self.audit_events += 1
        return int(self.audit_events)

    def number_rows(self, name: str, rows: Sequence[Params]) -> list[Params]:
        """Return the rows with their numbers."""
        if name == "insert_case":
            first, self.cases = self.cases + 1, self.cases + len(rows)
        else:
            first, self.events = self.events + 1, self.events + len(rows)
        return [(*row, number) for number, row in enumerate(rows, start=first)]


async def write_batch(connection: PostgresConnection, operations: Sequence[WriteOperation]) -> BatchResult:
    """Commit the operations in one transaction. Raises asyncpg's error, after which nothing is written."""
    refused: set[int] = {place for place, one in enumerate(operations) if _repeats_a_guard(one)}
    while True:
        transaction = connection.transaction()
        await transaction.start()
        try:
            result = await _Batch(connection, operations, refused).write()
        except _Refused as found:
            refused |= found.places
            await transaction.rollback()
        except BaseException:
            with suppress(*OUTAGES):
                await transaction.rollback()
            raise
        else:
            await _commit(transaction)
            return result


async def _commit(transaction: Any) -> None:
    """Raise CommitUncertain if the answer to the commit did not arrive."""
    try:
        await transaction.commit()
    except (TimeoutError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError) as error:
        raise CommitUncertain(str(error)) from error


class _Batch:
    """The statements of a batch, grouped by name. `refused` are the places of operations to leave out."""

    def __init__(
        self, connection: PostgresConnection, operations: Sequence[WriteOperation], refused: set[int]
    ) -> None:
        self._connection = connection
        self._operations = operations
        self._accepted = {place: one for place, one in enumerate(operations) if place not in refused}
        self._results: dict[int, Rows] = {}
        self._head: _LogHead | None = None

    async def write(self) -> BatchResult:
        """Run the statements, and return how each operation ended."""
        if any(map(_adds_to_log, self._accepted.values())):
            self._head = _LogHead(await self._connection.fetchrow(LOCK_LOG))
        await self._write_guards()
        statements = self._group("statements")
        for name in sorted(statements, key=ORDER.__getitem__):
            await self._write_statement(name, statements[name])
        await self._write_audit_events()
        events = EventRange(1, 0)
        if self._head is not None:
            head = self._head
            await self._connection.execute(MOVE_LOG, head.cases, head.events, head.audit_events)
            events = EventRange(head.first_event, head.events)
        outcomes: list[BatchedOutcome] = [
            self._results.get(place, []) if place in self._accepted else CaseConflict()
            for place in range(len(self._operations))
        ]
        return BatchResult(outcomes, events)

    def _group(self, part: str) -> Mapping[str, list[tuple[int, Params]]]:
        """Return the rows of each statement with the places of their operations."""
        groups: dict[str, list[tuple[int, Params]]] = defaultdict(list)
        for place, operation in self._accepted.items():
            for name, params in getattr(operation, part):
                groups[name].append((place, params))
        return groups

    async def _write_guards(self) -> None:
        """Run the guards. Those that fail with other guards that held undo the batch, by raising _Refused."""
        guards, failed, held = self._group("guards"), set[int](), set[int]()
        has_gap = False
        for name in sorted(guards, key=ORDER.__getitem__):
            written = await self._write_statement(name, guards[name])
            found = {place for place, params in guards[name] if not _is_written(name, place, params, written)}
            failed |= found
            held |= {place for place, _ in guards[name]} - found
            has_gap = has_gap or (bool(found) and name in NUMBERED)
        if failed & held or has_gap:
            raise _Refused(failed)
        for place in failed:
            del self._accepted[place]

    async def _write_statement(self, name: str, rows: Sequence[tuple[int, Params]]) -> Mapping[Any, Rows]:
        """Run a statement, and return the rows it returned by their key, or by their operation's place."""
        if name not in SET_STATEMENTS:
            returned: dict[Any, Rows] = {}
            for place, params in rows:
                found = await self._connection.fetch(QUERIES[name], *map(escape, params))
                self._results[place] = found = [*map(unescape, found)]
                returned[place] = found if returned.get(place, True) else []
            return returned
        params_of_rows = _keep_last(name, [params for _, params in rows])
        if name in NUMBERED and self._head is not None:
            params_of_rows = self._head.number_rows(name, params_of_rows)
        keys = await self._connection.fetch(QUERIES[name], *transpose(params_of_rows))
        return {tuple(unescape(key)): [key] for key in keys}

    async def _write_audit_events(self) -> None:
        """Append the audit events, each to the chain of its tenant."""
        events = [event for one in self._accepted.values() for event in one.audit_events]
        if not events or self._head is None:
            return
        tenants = sorted({str(event[1]) for event in events})
        heads: dict[Any, tuple[int, str]] = {
            tenant: (count, digest)
            for tenant, count, digest in map(
                unescape, await self._connection.fetch(LOCK_AUDIT_HEADS, [*map(escape, tenants)])
            )
        }
        rows: list[Params] = []
        for *values, _ in events:
            number, tenant = self._head.next_audit_number(), values[1]
            count, previous = heads.get(tenant, (0, NO_EVENT))
            link = (*values[:11], *values[13:15])
            digest = compute_link_digest(number, count + 1, previous, *link)
            heads[tenant] = (count + 1, digest)
            rows.append((*values, number, count + 1, previous, digest))
        await self._connection.fetch(INSERT_AUDIT_EVENT, *transpose(rows))
        moved = [(tenant, *heads[tenant], NO_EVENT) for tenant in tenants]
        await self._connection.fetch(MOVE_AUDIT_HEAD, *transpose(moved))


def _adds_to_log(operation: WriteOperation) -> bool:
    names = (name for name, _ in (*operation.guards, *operation.statements))
    return bool(operation.audit_events) or any(name in LOG_STATEMENTS for name in names)


def _is_written(name: str, place: int, params: Params, written: Mapping[Any, Rows]) -> bool:
    """Return whether a guard wrote its row: all rows of the operation, if it has several."""
    return bool(written.get(params[: KEYS[name].length] if name in SET_STATEMENTS else place))


def _repeats_a_guard(operation: WriteOperation) -> bool:
    """Return whether two guards of an operation write the same row, which only one of them can."""
    keys = [(name, *params[: KEYS[name].length]) for name, params in operation.guards if name in KEYS]
    return len(keys) != len(set(keys))


def _keep_last(name: str, rows: Iterable[Params]) -> list[Params]:
    """Return the rows without those that a later row with the same key replaces."""
    if name not in ("upsert_task", "upsert_draft"):
        return list(rows)
    length = KEYS[name].length
    return list({params[:length]: params for params in rows}.values())
