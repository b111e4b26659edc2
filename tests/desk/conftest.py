"""A new desk for every test, once over a store in memory and once over a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.bootstrap.storage import open_store
from placet.ports.store import Store
from placet.testing.desk import DeskForTests, create_desk_for_tests


@pytest.fixture(params=["memory", "file"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(":memory:" if request.param == "memory" else str(tmp_path / "cases.db"))
    yield opened
    await opened.aclose()


@pytest.fixture
def kit(store: Store) -> DeskForTests:
    return create_desk_for_tests(store=store)
