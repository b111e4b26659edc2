"""One shared timer for many timeouts of the same length, which is cheaper than one timer each."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Deadlines(Generic[T]):
    """Calls `on_timeout` with each item that is not removed within `within_s` seconds."""

    def __init__(self, within_s: float, on_timeout: Callable[[T], None]) -> None:
        self.within_s = within_s
        self._on_timeout = on_timeout
        self._deadlines: dict[T, float] = {}
        """Sorted by deadline, because all items have the same timeout."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: T) -> None:
        """Add an item. An item that was already added gets a new deadline."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.within_s
        self._deadlines.pop(one, None)
        self._deadlines[one] = deadline
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire_due)

    def remove(self, one: T) -> None:
        """Remove an item."""
        self._deadlines.pop(one, None)

    def _expire_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._deadlines:
            one, deadline = next(iter(self._deadlines.items()))
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._expire_due)
                return
            del self._deadlines[one]
            self._on_timeout(one)
