"""Which writes share a commit: all that are there, and never so many that nothing is left to do meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.stores.sql.operation import WriteOperation
from placet.stores.sqlite.connection import connect_writer
from placet.stores.sqlite.group_commit import FULL_BATCH, GroupCommitWriter
from placet.stores.sqlite.migrate import prepare_file

pytestmark = pytest.mark.anyio


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[GroupCommitWriter]:
    path = tmp_path / "cases.db"
    prepare_file(path)
    made = GroupCommitWriter(connect_writer(path))
    yield made
    await made.finish()
    made.close()


async def test_a_write_that_comes_a_turn_later_is_committed_with_the_first(writer: GroupCommitWriter) -> None:
    first = writer.submit(WriteOperation())
    await asyncio.sleep(0)
    second = writer.submit(WriteOperation())
    await first
    assert second.done()


async def test_a_full_group_does_not_wait_for_more(writer: GroupCommitWriter) -> None:
    group = [writer.submit(WriteOperation()) for _ in range(FULL_BATCH)]
    await asyncio.sleep(0)
    late = writer.submit(WriteOperation())
    await group[0]
    assert all(one.done() for one in group)
    assert not late.done()
    await late
