"""The store in SQLite fulfils the contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assent.ports.store import Store
from assent.stores.sqlite import SqliteStore
from assent.testing.contracts.store import StoreContract


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    sqlite = await SqliteStore.open(tmp_path / "assent.db")
    yield sqlite
    await sqlite.aclose()


class TestSqliteStore(StoreContract):
    pass
