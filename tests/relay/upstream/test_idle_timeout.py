"""One timer for many waits: each has its time, and only its own."""

import asyncio
from typing import Any

import pytest

from placet.relay.upstream.agent_client import IdleTimeout
from tests.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_late_data_raises_a_timeout() -> None:
    patience = IdleTimeout(0.02)
    for _ in range(5):
        assert await patience.wait(asyncio.sleep(0.005, "there")) == "there"
    with pytest.raises(TimeoutError):
        await patience.wait(asyncio.Event().wait())
    patience.close()


async def test_time_between_waits_does_not_count() -> None:
    patience = IdleTimeout(0.02)
    assert await patience.wait(asyncio.sleep(0, 1)) == 1
    await asyncio.sleep(0.05)
    assert await patience.wait(asyncio.sleep(0.01, 2)) == 2
    patience.close()


async def test_cancelled_task_gets_no_timeout() -> None:
    patience = IdleTimeout(5)
    waiting = asyncio.create_task(patience.wait(asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    patience.close()
