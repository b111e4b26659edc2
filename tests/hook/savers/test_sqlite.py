"""SqliteSaver keeps the contract."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assent.hook.checkpoint import Checkpoint
from assent.hook.savers.saver import Saver
from assent.hook.savers.sqlite import SqliteSaver
from assent.testing.contracts.saver import OpenSaver, SharedSaverContract


class TestSqliteSaver(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(SqliteSaver, folder / "threads.db")


class TestWritesThatNeedNotBeOnDiskYet(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(unhurried, folder / "threads.db")


def unhurried(path: Path, **named: Any) -> Saver:
    return SqliteSaver(path, **named).soon


def test_only_writes_that_need_not_be_on_disk_yet_do_without_a_sync(folder: Path) -> None:
    saver = SqliteSaver(folder / "threads.db")
    begun = Checkpoint(thread_id="thread", rev=1)
    syncs = []
    for keep, checkpoint in (
        (saver.put, begun),
        (saver.soon.put, begun.next()),
        (saver.put, begun.next().next()),
    ):
        keep(checkpoint)
        assert saver._writer is not None
        syncs.append(saver._writer.pragma("synchronous"))
    assert syncs == [2, 1, 2]
    saver.close()
