"""A cheap timeout for many short waits, such as the reads of a stream."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class IdleTimeout:
    """Limits each wait of one task.

    `asyncio.timeout` sets and cancels a timer for each wait. This class keeps one timer, which checks when it
    expires whether the current wait has taken too long.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._until: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_expired = False

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Await and return the result; raise TimeoutError if it takes too long."""
        task = self._task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        self._until = self._loop.time() + self._within_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._check_idle)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._is_expired and task is not None and task.uncancel() <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._until = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_idle(self) -> None:
        self._timer = None
        if self._until is None:
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._check_idle)
        elif self._task is not None:
            self._is_expired = True
            self._task.cancel()
