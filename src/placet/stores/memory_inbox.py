"""Cases in the order in which an inbox shows them, in this process's memory."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime

from placet.cases.case import Case, Offer
from placet.ports.inbox_store import InboxCursor, Owner

Key = tuple[datetime, int]
"""What a case is sorted by: a moment, and when it was opened among all."""


class MemoryInboxStore(ABC):
    """The InboxStore over plain dictionaries."""

    _cases: dict[str, Case]
    _offers: dict[str, Offer]

    async def list_owners(self) -> Sequence[Owner]:
        """Everyone who has a case here."""
        self._check_open()
        return [*dict.fromkeys(case.owner for case in self._cases.values())]

    async def list_waiting_cases(
        self, owners: Collection[Owner], *, now: datetime, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' cases that can be answered now, sorted by their deadlines."""
        start = self._key(after) if after is not None else None
        found: list[tuple[Key, str]] = []
        for number, case in self._of(owners):
            key = (case.expires_at, number)
            if case.live and case.expires_at > now and (start is None or key > start):
                found.append((key, case.id))
        return [(self._cases[id], self._offers[id]) for _, id in sorted(found)[:limit]]

    async def list_closed_cases(
        self, owners: Collection[Owner], *, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' closed cases whose content is still there, the last closed first."""
        start = self._key(after) if after is not None else None
        found: list[tuple[Key, str]] = []
        for number, case in self._of(owners):
            if case.closed_at is None or case.erased_at is not None:
                continue
            key = (case.closed_at, number)
            if start is None or key < start:
                found.append((key, case.id))
        return [(self._cases[id], self._offers[id]) for _, id in sorted(found, reverse=True)[:limit]]

    def _of(self, owners: Collection[Owner]) -> list[tuple[int, Case]]:
        self._check_open()
        numbered = enumerate(self._cases.values(), start=1)
        return [(number, case) for number, case in numbered if case.owner in owners]

    def _key(self, place: InboxCursor) -> Key:
        ids = [*self._cases]
        return place.at, ids.index(place.case_id) + 1 if place.case_id in self._cases else 0

    @abstractmethod
    def _check_open(self) -> None:
        """Raise Unavailable once the store is closed."""
