"""The store in memory fulfils the contract."""

from collections.abc import AsyncIterator

import pytest

from placet.ports.store import Store
from placet.stores.memory import MemoryStore
from placet.testing.contracts.store import StoreContract


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    memory = MemoryStore()
    yield memory
    await memory.aclose()


class TestMemoryStore(StoreContract):
    pass
