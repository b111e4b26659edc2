"""A loop in which time passes only while there is nothing to do, and then at once."""

import asyncio
import selectors
from collections.abc import Callable


class QuickLoop(asyncio.SelectorEventLoop):
    """For tests of timers that wait for nothing outside their loop: nothing is ever late in it.

    A module has it where its own fixture `anyio_backend` returns `("asyncio", {"loop_factory": QuickLoop})`.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        super().__init__(_Impatient(self._pass))

    def time(self) -> float:
        """Seconds since it was made, all of them spent waiting."""
        return self._passed

    def _pass(self, seconds: float) -> None:
        self._passed += seconds


class _Impatient(selectors.DefaultSelector):
    """Takes the time that it should wait for as gone."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout is not None:
            self._pass_time(timeout)
        return found
