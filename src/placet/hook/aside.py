"""Calling what may block from an event loop, without holding up others there."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from placet.hook.alone import alone
from placet.hook.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")


class Aside:
    """What has methods that may block; `waits` says whether they ever do."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._workers = Workers()

    async def aside(self, method: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call one of its methods without holding up others on the event loop."""
        if self.in_place():
            return method(*args, **named)
        result: T = await self._workers.run(partial(method, *args, **named))
        return result

    async def aside_undoing(
        self, undo: Callable[[T], object], method: Callable[P, T], *args: P.args, **named: P.kwargs
    ) -> T:
        """As `aside`; what comes of it is undone if the caller is cancelled meanwhile."""
        if self.in_place():
            return method(*args, **named)
        result: T = await self._workers.run(partial(method, *args, **named), undo=undo)
        return result

    def in_place(self) -> bool:
        """Whether its methods may be called on the running loop: they never wait, or nobody else is there."""
        return not self._waits or alone()
