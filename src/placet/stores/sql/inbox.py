"""Cases in the order of the inbox."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

from placet.cases.case import Case, Offer
from placet.ports.inbox_store import InboxCursor, Owner
from placet.stores.sql import rows
from placet.stores.sql.reader import LongReader, SqlReader
from placet.stores.sql.rows import to_micros

SELECT_ANONYMOUS_CASE = "select_anonymous_case"
SELECT_NEXT_OWNER = "select_next_owner"
SELECT_WAITING = "select_waiting"
SELECT_CLOSED = "select_closed"
SELECT_CASE_NUMBER = "select_case_number"
SELECT_CASE_AND_OFFER = "select_numbered_case_and_offer"
_LAST = 2**63 - 1

Found = list[tuple[Case, Offer]]
Start = tuple[int, int]
"""A time and a case number: the position after which a page begins."""


class SqlInboxStore:
    """Implements `InboxStore`. Each owner's cases are sorted by an index, and are merged here."""

    _long_reader: LongReader

    async def list_owners(self) -> Sequence[Owner]:
        """Return every owner of a case, open or closed; None stands for anonymous cases."""
        return await self._long_reader.run(_list_owners)

    async def list_waiting_cases(
        self, owners: Collection[Owner], *, now: datetime, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' cases that can be answered now, by deadline."""

        async def read(reader: SqlReader) -> Found:
            start = max((to_micros(now), _LAST), await _start_after(reader, after, otherwise=(0, 0)))
            pages = [await reader.rows(SELECT_WAITING, (owner, *start, limit)) for owner in set(owners)]
            return await _read_page(reader, islice(heapq.merge(*pages), limit))

        return await self._long_reader.run(read)

    async def list_closed_cases(
        self, owners: Collection[Owner], *, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' closed cases whose content is not erased, the last closed first."""

        async def read(reader: SqlReader) -> Found:
            start = await _start_after(reader, after, otherwise=(_LAST, _LAST))
            pages = [await reader.rows(SELECT_CLOSED, (owner, *start, limit)) for owner in set(owners)]
            return await _read_page(reader, islice(heapq.merge(*pages, reverse=True), limit))

        return await self._long_reader.run(read)


async def _list_owners(reader: SqlReader) -> list[Owner]:
    owners: list[Owner] = [None] if await reader.row(SELECT_ANONYMOUS_CASE) else []
    row = await reader.row(SELECT_NEXT_OWNER, ("",))
    while row[0] is not None:
        owners.append(row[0])
        row = await reader.row(SELECT_NEXT_OWNER, (row[0],))
    return owners


async def _start_after(reader: SqlReader, cursor: InboxCursor | None, *, otherwise: Start) -> Start:
    if cursor is None:
        return otherwise
    row = await reader.row(SELECT_CASE_NUMBER, (cursor.case_id,))
    return to_micros(cursor.at), row[0] if row else 0


async def _read_page(reader: SqlReader, page: Iterator[tuple[int, int]]) -> Found:
    """Return the cases of a page, without those that were erased since they were listed."""
    found = [await reader.row(SELECT_CASE_AND_OFFER, (number,)) for _, number in page]
    return [pair for row in found if row and (pair := rows.case_and_offer_from(row)) is not None]
