"""A receiver, a client that may call it, and a certificate authority of our own."""

from collections.abc import AsyncIterator

import pytest

from placet.deliveries.guarded_http import GuardedHttp
from tests.deliveries.receiver import Receiver, guarded, listening


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with listening() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[GuardedHttp]:
    async with guarded(allow_loopback=True) as client:
        yield client
