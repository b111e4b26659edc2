"""One shared timer for many waits of the same length, which is cheaper than one timer each."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Deadlines(Generic[T]):
    """Calls `late` with each that was added and not removed within so many seconds."""

    def __init__(self, within_s: float, late: Callable[[T], None]) -> None:
        self.within_s = within_s
        self._late = late
        self._ends: dict[T, float] = {}
        """In the order in which they end, since all have the same time."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: T) -> None:
        """Begin to watch the time; whoever is watched already begins anew."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.within_s
        self._ends.pop(one, None)
        self._ends[one] = ends
        if self._timer is None:
            self._timer = loop.call_at(ends, self._expire_due)

    def remove(self, one: T) -> None:
        """Watch no more."""
        self._ends.pop(one, None)

    def _expire_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._ends:
            one, ends = next(iter(self._ends.items()))
            if ends > loop.time():
                self._timer = loop.call_at(ends, self._expire_due)
                return
            del self._ends[one]
            self._late(one)
