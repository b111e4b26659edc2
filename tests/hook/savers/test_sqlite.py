"""SqliteSaver keeps the contract."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.errors import ThreadBusy
from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.saver import Saver
from placet.hook.savers.sqlite import SqliteSaver
from placet.hook.savers.sqlite_schema import VERSION
from placet.testing.contracts.saver import HOUR, OpenSaver, SharedSaverContract

VERSION_2 = Path(__file__).with_name("version_2.sql").read_text()
STEP_OF_2 = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
NEVER = 2**62


class TestSqliteSaver(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(SqliteSaver, folder / "threads.db")


class TestWritesThatNeedNotBeOnDiskYet(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        return partial(open_unsynced_saver, folder / "threads.db")


def open_unsynced_saver(path: Path, **named: Any) -> Saver:
    return SqliteSaver(path, **named).unsynced


def test_only_writes_that_need_not_be_on_disk_yet_do_without_a_sync(folder: Path) -> None:
    saver = SqliteSaver(folder / "threads.db")
    begun = Checkpoint(thread_id="thread", rev=1)
    syncs = []
    for keep, checkpoint in (
        (saver.put, begun),
        (saver.unsynced.put, begun.next()),
        (saver.put, begun.next().next()),
    ):
        keep(checkpoint)
        assert saver._writer is not None
        syncs.append(saver._writer.pragma("synchronous"))
    assert syncs == [2, 1, 2]
    saver.close()


def test_threads_of_a_file_from_before_go_on_where_they_stood(folder: Path) -> None:
    path = folder / "threads.db"
    before = apsw.Connection(str(path))
    before.execute(VERSION_2)
    for thread_id, stages in (
        ("done", "paused running ready"),
        ("asks", "paused"),
        ("works", "paused running"),
    ):
        for rev, stage in enumerate(stages.split(), 1):
            lease = NEVER if stage == "running" else None
            text = Checkpoint(thread_id=thread_id, agent="clerk", queued=(f"{stage}!",)).to_json()
            step = (thread_id.encode(), rev, stage, stage != "ready", rev, lease, text, NEVER, rev - 2, None)
            before.execute(STEP_OF_2, step)
    before.close()

    saver = SqliteSaver(path)
    assert [(one.checkpoint.rev, one.checkpoint.queued) for one in saver.list_checkpoints("done")] == [
        (3, ("ready!",)),
        (2, ("running!",)),
    ]
    assert (saver.list_threads("paused"), saver.list_threads("running")) == (["asks"], ["works"])
    assert saver.list_threads("ready") == ["done"]
    with pytest.raises(ThreadBusy):
        saver.claim(Checkpoint(thread_id="works", rev=3, stage="running"), lease_for=HOUR)
    for thread_id, rev in (("done", 4), ("asks", 2), ("new", 1)):
        saver.claim(Checkpoint(thread_id=thread_id, rev=rev, stage="running"), lease_for=HOUR)
    saver.release("asks")
    assert sorted(saver.list_threads("running")) == ["done", "new", "works"]
    saver.close()
    after = apsw.Connection(str(path))
    assert (after.pragma("user_version"), after.pragma("integrity_check")) == (VERSION, "ok")
    after.close()


def test_a_lease_shows_and_ends_on_the_newest_checkpoint_alone(folder: Path) -> None:
    saver = SqliteSaver(folder / "threads.db")
    begun = Checkpoint(thread_id="thread", rev=1, stage="running")
    saver.claim(begun, lease_for=HOUR)
    saver.put(begun.next(stage="paused"))
    assert [one.leased_until for one in saver.list_checkpoints("thread")] == [None, None]
    saver.claim(begun.next().next(), lease_for=timedelta(0))
    saver.claim(begun.next().next().next(), lease_for=HOUR)
    saver.close()
