"""An event loop in virtual time, which passes only while there is nothing to do, and then at once."""

import asyncio
import selectors
from collections.abc import Callable


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For tests of timers that wait for nothing outside their loop: no timer is ever late in it.

    A module uses it if its fixture `anyio_backend` returns `("asyncio", {"loop_factory": VirtualTimeLoop})`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_VirtualTimeSelector(self._advance))

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def _advance(self, seconds: float) -> None:
        self._now += seconds


class _VirtualTimeSelector(selectors.DefaultSelector):
    """Advances the time instead of waiting."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            self._advance(timeout)
        return ready
