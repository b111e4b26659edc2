"""Wakes tasks of this process that wait for a change of a case."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from placet.ports.change_feed import ChangeFeed


class CaseChanges:
    """The tasks that wait for changes, by case."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        feed.add_change_listener(self._wake)

    @contextmanager
    def following(self, case_id: str) -> Iterator[asyncio.Event]:
        """Return an event that is set whenever the case may have changed."""
        change = asyncio.Event()
        self._waiting[case_id].add(change)
        try:
            yield change
        finally:
            self._waiting[case_id].discard(change)
            if not self._waiting[case_id]:
                del self._waiting[case_id]

    def _wake(self, case_id: str | None) -> None:
        """Wake the tasks that wait for this case, or all of them."""
        for known in [case_id] if case_id is not None else list(self._waiting):
            for change in self._waiting.get(known, ()):
                change.set()
