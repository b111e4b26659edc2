"""One timer for many waits: each that is not over in time is told, once, and no other."""

import asyncio
from typing import Any

import pytest

from placet.relay.upstream.connection import Deadlines
from tests.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class MissedDeadlines:
    """Who was late, in order."""

    def __init__(self, within_s: float, *, last: str) -> None:
        self.names: list[str] = []
        self.over = asyncio.Event()
        self.deadlines = Deadlines(within_s, self.note)
        self._last = last

    def note(self, name: str) -> None:
        self.names.append(name)
        if name == self._last:
            self.over.set()

    async def wait(self) -> list[str]:
        async with asyncio.timeout(60):
            await self.over.wait()
        return self.names


async def test_only_expired_deadlines_fire_in_order() -> None:
    late = MissedDeadlines(0.02, last="last")
    for name in ("first", "soon over", "second", "last"):
        late.deadlines.add(name)
    late.deadlines.remove("soon over")
    late.deadlines.remove("never begun")
    assert await late.wait() == ["first", "second", "last"]


async def test_timer_restarts_after_an_idle_period() -> None:
    late = MissedDeadlines(0.01, last="later")
    late.deadlines.add("at once")
    late.deadlines.remove("at once")
    await asyncio.sleep(0.03)
    late.deadlines.add("later")
    assert await late.wait() == ["later"]


async def test_restarted_deadline_has_its_full_time() -> None:
    late = MissedDeadlines(0.02, last="one")
    for name in ("one", "other", "one"):
        late.deadlines.add(name)
    assert await late.wait() == ["other", "one"]
