"""The store in SQLite fulfils the contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.ports.store import Store
from placet.stores.sqlite import SqliteStore
from placet.testing.contracts.store import StoreContract


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    sqlite = await SqliteStore.open(tmp_path / "placet.db")
    yield sqlite
    await sqlite.aclose()


class TestSqliteStore(StoreContract):
    pass
