"""The store in memory passes the same contract as the one in a file."""

from collections.abc import AsyncIterator

import pytest

from placet.bootstrap.storage import open_store
from placet.ports.store import Store
from placet.testing.contracts.store import StoreContract


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store(":memory:")
    yield opened
    await opened.aclose()


class TestInMemoryStore(StoreContract):
    pass
