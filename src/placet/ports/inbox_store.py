"""Storage as the inbox reads it: waiting cases by deadline, and closed cases, the last closed first."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from placet.cases.case import Case, Offer

Owner = str | None


class InboxCursor(Struct, frozen=True, kw_only=True):
    """The end of a page of cases: the sort time of the last case, and its id."""

    at: datetime
    case_id: str


class InboxStore(Protocol):
    """Lists the cases of several owners in one order. A page costs the same however many there are."""

    async def list_owners(self) -> Sequence[Owner]:
        """Return every owner of a case, open or closed; None stands for anonymous cases."""
        ...

    async def list_waiting_cases(
        self, owners: Collection[Owner], *, now: datetime, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' cases that can be answered now, by deadline."""
        ...

    async def list_closed_cases(
        self, owners: Collection[Owner], *, after: InboxCursor | None = None, limit: int = 50
    ) -> Sequence[tuple[Case, Offer]]:
        """Return these owners' closed cases whose content is not erased, the last closed first."""
        ...
