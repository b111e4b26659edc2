"""The store as an inbox reads it: what waits, the most urgent first, and what was closed last."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from placet.cases.case import Case, Offer

Owner = str | None


class Place(Struct, frozen=True, kw_only=True):
    """Where a page of cases ended: the moment that the last one was sorted by, and that one's id."""

    at: datetime
    case_id: str


class InboxStore(Protocol):
    """Cases of several owners in one order. A page costs the same however many there are."""

    async def owners(self) -> Sequence[Owner]:
        """Everyone who has a case here, nobody included, however long it is closed."""
        ...

    async def waiting(
        self, owners: Collection[Owner], *, now: datetime, after: Place | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' cases that can be answered now, sorted by their deadlines."""
        ...

    async def closed(
        self, owners: Collection[Owner], *, after: Place | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """These owners' closed cases whose content is still there, the last closed first."""
        ...
