"""Check of stored offers against their digests, before they are shown and before an answer is signed."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from placet.cases.case import Case, Offer, matches_digest
from placet.cases.commands import Command, MarkAltered
from placet.cases.deadlines import SYSTEM
from placet.errors import ContentAltered, PlacetError
from placet.ports.change_feed import ChangeFeed

MAX_REMEMBERED = 20_000

log = logging.getLogger("placet.desk")

Order = Callable[[str, Command], Awaitable[Case]]


class ContentCheck:
    """Verifies offers. A case whose offer was altered is logged and marked once, and is refused from then on.

    An offer is digested each time it is read. Polls do not read it: they rely on the last check, which holds
    until another process writes to the store.
    """

    def __init__(self, store: ChangeFeed, order: Order) -> None:
        self._order = order
        self._known: OrderedDict[str, str] = OrderedDict()  # case id -> digest of its verified offer
        store.add_change_listener(self._forget_all)

    def is_known(self, case: Case) -> bool:
        """Return whether the case's offer was verified and no other process has written since."""
        return self._known.get(case.id) == case.offer_digest

    async def require(self, case: Case, offer: Offer) -> None:
        """Raise ContentAltered, and mark the case, unless this is the offer that it was created with."""
        if not await self.is_intact(case, offer):
            raise ContentAltered(case_id=case.id)

    async def is_intact(self, case: Case, offer: Offer) -> bool:
        """Return whether this is the offer that the case was created with. If not, mark the case."""
        if case.altered_at is not None:
            return False
        if matches_digest(case, offer):
            self._known[case.id] = case.offer_digest
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return True
        self._known.pop(case.id, None)
        log.error("content_altered case_id=%s owner=%s status=%s", case.id, case.owner, case.status)
        try:
            await self._order(case.id, MarkAltered(actor=SYSTEM))
        except PlacetError as error:  # the next check tries again; the case is refused either way
            log.warning("content_altered_not_marked case_id=%s error=%s", case.id, error.message)
        return False

    def _forget_all(self, case_id: str | None) -> None:
        if case_id is None:
            self._known.clear()
