"""Which writes share a commit: all that are there, and never so many that nothing is left to do meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.stores.sqlite.connection import connect_writer
from placet.stores.sqlite.migrate import prepare
from placet.stores.sqlite.operation import Operation
from placet.stores.sqlite.writer import FULL, Writer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    path = tmp_path / "cases.db"
    prepare(path)
    made = Writer(connect_writer(path))
    yield made
    await made.finish()
    made.close()


async def test_a_write_that_comes_a_turn_later_is_committed_with_the_first(writer: Writer) -> None:
    first = writer.submit(Operation())
    await asyncio.sleep(0)
    second = writer.submit(Operation())
    await first
    assert second.done()


async def test_a_full_group_does_not_wait_for_more(writer: Writer) -> None:
    group = [writer.submit(Operation()) for _ in range(FULL)]
    await asyncio.sleep(0)
    late = writer.submit(Operation())
    await group[0]
    assert all(one.done() for one in group)
    assert not late.done()
    await late
