"""LangGraphSaver keeps the contract over LangGraph's own checkpointers."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver as LangGraphSqliteSaver

from placet.errors import CheckpointConflict, Unavailable
from placet.hook.savers.langgraph import LangGraphSaver
from placet.hook.savers.memory import MemorySaver
from placet.hook.savers.sqlite import SqliteSaver
from placet.testing.contracts.saver import HOUR, OpenSaver, SaverContract, SharedSaverContract, save_thread
from placet.testing.threads import create_full_checkpoint


def connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "langgraph.db", timeout=30, check_same_thread=False)


class OwnedSaver(LangGraphSaver):
    """Closes the database of its checkpointer too."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._database = connect(folder)
        claims = SqliteSaver(folder / "claims.db", **options)
        super().__init__(LangGraphSqliteSaver(self._database), claims=claims)

    def close(self) -> None:
        super().close()
        self._database.close()


class TestOverSqlite(SharedSaverContract):
    @pytest.fixture
    def open_saver(self, folder: Path) -> OpenSaver:
        database = connect(folder)
        LangGraphSqliteSaver(database).setup()  # sqlite does not wait its turn to change the journal mode
        database.close()
        return partial(OwnedSaver, folder)


class TestOverMemory(SaverContract):
    @pytest.fixture
    def open_saver(self) -> OpenSaver:
        return lambda **options: LangGraphSaver(InMemorySaver(), claims=MemorySaver(**options))


def texts(checkpointer: BaseCheckpointSaver[Any]) -> int:
    return len(list(checkpointer.list(None)))


def test_the_checkpointer_forgets_what_is_no_longer_kept() -> None:
    checkpointer = InMemorySaver()
    saver = LangGraphSaver(checkpointer, claims=MemorySaver())
    save_thread(saver, 5)
    assert texts(checkpointer) == 3
    saver.release("thread")
    assert texts(checkpointer) == 0


def test_a_refused_checkpoint_leaves_nothing_behind() -> None:
    checkpointer = InMemorySaver()
    saver = LangGraphSaver(checkpointer, claims=MemorySaver())
    checkpoint = save_thread(saver, 2)
    with pytest.raises(CheckpointConflict):
        saver.put(checkpoint)
    with pytest.raises(CheckpointConflict):
        saver.claim(checkpoint, lease_for=HOUR)
    assert texts(checkpointer) == 2


def test_a_checkpointer_that_fails_is_unavailable_and_nothing_counts(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "langgraph.db", check_same_thread=False)
    claims = MemorySaver()
    saver = LangGraphSaver(LangGraphSqliteSaver(database), claims=claims)
    checkpoint = save_thread(saver, 1)
    database.close()
    with pytest.raises(Unavailable):
        saver.put(checkpoint.next())
    with pytest.raises(Unavailable):
        saver.get("thread")
    assert [one.checkpoint.rev for one in claims.list_checkpoints("thread")] == [1]


def test_deleted_checkpoint_is_an_error() -> None:
    checkpointer = InMemorySaver()
    saver = LangGraphSaver(checkpointer, claims=MemorySaver())
    save_thread(saver, 1)
    for found in list(checkpointer.list(None)):
        checkpointer.delete_thread(found.config["configurable"]["thread_id"])
    with pytest.raises(Unavailable, match="lost"):
        saver.get("thread")


def test_a_text_that_is_just_being_cleared_away_is_looked_for_again() -> None:
    class Forgetting(InMemorySaver):
        half = False

        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            if found is not None and self.half:
                self.half = False
                found.checkpoint["channel_values"].clear()
            return found

    checkpointer = Forgetting()
    saver = LangGraphSaver(checkpointer, claims=MemorySaver())
    checkpoint = create_full_checkpoint("t")
    saver.put(checkpoint)
    checkpointer.half = True
    kept = saver.get("t")
    assert kept is not None
    assert kept.checkpoint == checkpoint
