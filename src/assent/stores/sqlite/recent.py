"""The cases that this process opened or moved last: a case is looked at most while it is young.

Reading a row right after a commit is dear: every commit makes the reading connection forget its pages. Only
what has been committed is kept, large offers are not, and when another process writes all of it is forgotten.
"""

from assent.cases.case import Case, Offer

MOST = 10_000
LARGEST_OFFER = 4096  # bytes of JSON; what is larger would make memory hard to foresee


class RecentCases:
    """Cases with their offers, as they were committed; the oldest go first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[str, tuple[Case, Offer]] = {}

    def get(self, case_id: str) -> tuple[Case, Offer] | None:
        """The case and its offer, if they are kept."""
        return self._kept.get(case_id)

    def keep(self, case: Case, offer: Offer) -> None:
        """Keep what has just been committed, unless something newer is kept already."""
        known = self._kept.get(case.id)
        if known is not None and known[0].version >= case.version:
            return
        self._kept[case.id] = (case, offer)
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def drop(self, case_id: str) -> Offer | None:
        """Forget a case that is about to change; returns its offer, which does not."""
        known = self._kept.pop(case_id, None)
        return known[1] if known else None

    def clear(self) -> None:
        """Forget all: someone else has written."""
        self._kept.clear()
