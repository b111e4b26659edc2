"""A fresh desk for every test, once over each store that a desk may stand on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.ports.store import Store
from placet.stores.memory import MemoryStore
from placet.stores.sqlite import SqliteStore
from placet.testing.desk import DeskForTests, desk_for_tests


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    kept = await SqliteStore.open(tmp_path / "cases.db") if request.param == "sqlite" else MemoryStore()
    yield kept
    await kept.aclose()


@pytest.fixture
def kit(store: Store) -> DeskForTests:
    return desk_for_tests(store=store)
