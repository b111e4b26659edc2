"""Cases in the order in which an inbox shows them, in SQLite."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

from placet.cases.case import Case, Offer
from placet.ports.inbox_store import InboxCursor, Owner
from placet.stores.sqlite import rows
from placet.stores.sqlite.pages import PageReader
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.rows import micros

SELECT_NOBODYS_CASE = QUERIES["select_nobodys_case"]
SELECT_NEXT_OWNER = QUERIES["select_next_owner"]
SELECT_WAITING = QUERIES["select_waiting"]
SELECT_CLOSED = QUERIES["select_closed"]
SELECT_CASE_NUMBER = QUERIES["select_case_number"]
SELECT_CASE_AND_OFFER = QUERIES["select_numbered_case_and_offer"]
_LAST = 2**63 - 1

Found = list[tuple[Case, Offer]]
Start = tuple[int, int]
"""A moment and a number: the place after which a page begins."""


class SqliteInboxStore:
    """The InboxStore over the threads for longer reads. Each owner's cases lie sorted, and are merged."""

    _pages: PageReader

    async def list_owners(self) -> Sequence[Owner]:
        """Everyone who has a case here."""
        return await self._pages.ask(lambda reader: [*_owners(reader)])

    async def list_waiting_cases(
        self, owners: Collection[Owner], *, now: datetime, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' cases that can be answered now, sorted by their deadlines."""

        def question(reader: Reader) -> Found:
            start = max((micros(now), _LAST), _start(reader, after, otherwise=(0, 0)))
            pages = [reader.rows(SELECT_WAITING, (owner, *start, limit)) for owner in set(owners)]
            return _read(reader, islice(heapq.merge(*pages), limit))

        return await self._pages.ask(question)

    async def list_closed_cases(
        self, owners: Collection[Owner], *, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' closed cases whose content is still there, the last closed first."""

        def question(reader: Reader) -> Found:
            start = _start(reader, after, otherwise=(_LAST, _LAST))
            pages = [reader.rows(SELECT_CLOSED, (owner, *start, limit)) for owner in set(owners)]
            return _read(reader, islice(heapq.merge(*pages, reverse=True), limit))

        return await self._pages.ask(question)


def _owners(reader: Reader) -> Iterator[Owner]:
    if reader.row(SELECT_NOBODYS_CASE):
        yield None
    owner: str | None = ""
    while (owner := reader.row(SELECT_NEXT_OWNER, (owner,))[0]) is not None:
        yield owner


def _start(reader: Reader, place: InboxCursor | None, *, otherwise: Start) -> Start:
    if place is None:
        return otherwise
    row = reader.row(SELECT_CASE_NUMBER, (place.case_id,))
    return micros(place.at), row[0] if row else 0


def _read(reader: Reader, page: Iterator[tuple[int, int]]) -> Found:
    """The cases of a page; one that was erased since it was listed is left out."""
    found = [reader.row(SELECT_CASE_AND_OFFER, (number,)) for _, number in page]
    return [(rows.case_from(row[0]), rows.offer_from(row[1])) for row in found if row]
