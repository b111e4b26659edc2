"""Calling functions that may block from an event loop, without delaying other work on that loop."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from placet.hook.async_values import offer_event_loop
from placet.hook.workers import Workers

T = TypeVar("T")
_owned_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("placet_owned_loop", default=None)


def run_on_owned_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end on a loop that runs nothing else."""
    before = _owned_loop.set(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        _owned_loop.reset(before)


def owns_event_loop() -> bool:
    """Return whether the running loop runs this work only, so that blocking it delays nothing else."""
    loop = _owned_loop.get()
    return loop is not None and loop is asyncio.get_running_loop()


class BlockingCaller:
    """Base of classes whose methods may block.

    `may_block` says whether they ever do, `awaits` whether they wait for async functions of the caller,
    which needs the event loop to be free.
    """

    def __init__(self, *, may_block: bool, awaits: bool = False) -> None:
        self._may_block = may_block
        self._awaits = awaits
        self._workers = Workers()

    async def run_blocking(
        self, function: Callable[[], T], *, on_cancel: Callable[[T], object] | None = None
    ) -> T:
        """Call the function, in a worker thread if it could delay other work on the event loop.

        If the caller is cancelled meanwhile, `on_cancel` is called with the function's result.
        """
        if self.runs_inline():
            return function()
        with offer_event_loop(asyncio.get_running_loop()):
            result: T = await self._workers.run(function, undo=on_cancel)
        return result

    def runs_inline(self) -> bool:
        """Return whether methods are called on the running loop: they never block, or block nothing else."""
        return not self._awaits and (not self._may_block or owns_event_loop())
