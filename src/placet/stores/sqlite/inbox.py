"""Cases in the order of the inbox, in SQLite."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

from placet.cases.case import Case, Offer
from placet.ports.inbox_store import InboxCursor, Owner
from placet.stores.sqlite import rows
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.rows import to_micros
from placet.stores.sqlite.threaded_reader import LongReader

SELECT_ANONYMOUS_CASE = QUERIES["select_anonymous_case"]
SELECT_NEXT_OWNER = QUERIES["select_next_owner"]
SELECT_WAITING = QUERIES["select_waiting"]
SELECT_CLOSED = QUERIES["select_closed"]
SELECT_CASE_NUMBER = QUERIES["select_case_number"]
SELECT_CASE_AND_OFFER = QUERIES["select_numbered_case_and_offer"]
_LAST = 2**63 - 1

Found = list[tuple[Case, Offer]]
Start = tuple[int, int]
"""A time and a case number: the position after which a page begins."""


class SqliteInboxStore:
    """Implements `InboxStore`. Each owner's cases are sorted by an index, and are merged here."""

    _long_reader: LongReader

    async def list_owners(self) -> Sequence[Owner]:
        """Return every owner of a case, open or closed; None stands for anonymous cases."""
        return await self._long_reader.run(lambda reader: [*_iterate_owners(reader)])

    async def list_waiting_cases(
        self, owners: Collection[Owner], *, now: datetime, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' cases that can be answered now, by deadline."""

        def read(reader: Reader) -> Found:
            start = max((to_micros(now), _LAST), _start_after(reader, after, otherwise=(0, 0)))
            pages = [reader.rows(SELECT_WAITING, (owner, *start, limit)) for owner in set(owners)]
            return _read_page(reader, islice(heapq.merge(*pages), limit))

        return await self._long_reader.run(read)

    async def list_closed_cases(
        self, owners: Collection[Owner], *, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' closed cases whose content is not erased, the last closed first."""

        def read(reader: Reader) -> Found:
            start = _start_after(reader, after, otherwise=(_LAST, _LAST))
            pages = [reader.rows(SELECT_CLOSED, (owner, *start, limit)) for owner in set(owners)]
            return _read_page(reader, islice(heapq.merge(*pages, reverse=True), limit))

        return await self._long_reader.run(read)


def _iterate_owners(reader: Reader) -> Iterator[Owner]:
    if reader.row(SELECT_ANONYMOUS_CASE):
        yield None
    owner: str | None = ""
    while (owner := reader.row(SELECT_NEXT_OWNER, (owner,))[0]) is not None:
        yield owner


def _start_after(reader: Reader, cursor: InboxCursor | None, *, otherwise: Start) -> Start:
    if cursor is None:
        return otherwise
    row = reader.row(SELECT_CASE_NUMBER, (cursor.case_id,))
    return to_micros(cursor.at), row[0] if row else 0


def _read_page(reader: Reader, page: Iterator[tuple[int, int]]) -> Found:
    """Return the cases of a page, without those that were erased since they were listed."""
    found = [reader.row(SELECT_CASE_AND_OFFER, (number,)) for _, number in page]
    return [pair for row in found if row and (pair := rows.case_and_offer_from(row)) is not None]
