"""Background tasks: a failing task does not stop the others."""

import asyncio
from datetime import datetime

import pytest

from placet.errors import Unavailable
from placet.server.background_tasks import BackgroundTasks
from placet.server.streams import EventStreams
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import create_desk_for_tests

pytestmark = pytest.mark.anyio
PATIENCE_S = 60


class BrokenSweep:
    """Rounds that cannot be made."""

    async def run_once(self) -> int:
        raise Unavailable

    async def catch_up(self) -> int:
        raise Unavailable

    async def next_at(self) -> datetime | None:
        return None


class PurgedStore(InMemorySqliteStore):
    """A store that records when expired rows are purged."""

    def __init__(self) -> None:
        super().__init__()
        self.purged = asyncio.Event()

    async def purge(self, now: datetime) -> int:
        self.purged.set()
        return await super().purge(now)


async def test_what_is_over_is_removed_even_while_retention_cannot_be_caught_up_with() -> None:
    store = PurgedStore()
    kit = create_desk_for_tests(store=store)
    background_tasks = BackgroundTasks(
        desk=kit.desk, store=store, sweep=BrokenSweep(), outbox=kit.outbox, streams=EventStreams(kit.desk)
    )
    background_tasks.start()
    async with asyncio.timeout(PATIENCE_S):
        await store.purged.wait()
    await background_tasks.stop()
