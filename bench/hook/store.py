"""What a user of a framework without a checkpointer would write: one table, as durable as our own savers.

It is written when our loop writes with a sync: when calls wait, when they were decided and nothing has run
yet, and when the run has ended. So what a power cut cannot undo is the same on both sides.
"""

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from bench.hook.scene import AS_TEXT, Setting


class ThreadStore(ABC):
    """Keeps what a framework needs to go on."""

    name: str
    as_text: bool

    @abstractmethod
    def put(self, thread_id: str, state: Any) -> None:
        """Keep it."""

    @abstractmethod
    def get(self, thread_id: str) -> Any:
        """What was kept last."""

    @abstractmethod
    def decide(self, thread_id: str, decisions: dict[str, str]) -> None:
        """Save the decisions once, before any call runs, also if others try the same."""


class MemoryThreadStore(ThreadStore):
    """The framework's own objects, as they are, or the text that a new process could go on from."""

    def __init__(self, framework: str, *, as_text: bool) -> None:
        self.name = f"{framework}{AS_TEXT}" if as_text else framework
        self.as_text = as_text
        self._kept: dict[str, Any] = {}

    def put(self, thread_id: str, state: Any) -> None:
        self._kept[thread_id] = state

    def get(self, thread_id: str) -> Any:
        return self._kept[thread_id]

    def decide(self, thread_id: str, decisions: dict[str, str]) -> None:
        assert thread_id in self._kept


class SqliteThreadStore(ThreadStore):
    """Texts in SQLite; each is on disk before `put` returns."""

    as_text = True

    def __init__(self, setting: Setting, framework: str) -> None:
        self.name = framework
        self._connection = make_durable(sqlite3.connect(setting.file(framework), isolation_level=None))
        setting.cleanup.callback(self._connection.close)
        self._connection.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, state TEXT, decisions TEXT) WITHOUT ROWID"
        )

    def put(self, thread_id: str, state: Any) -> None:
        self._connection.execute("REPLACE INTO threads VALUES (?, ?, NULL)", (thread_id, state))

    def get(self, thread_id: str) -> Any:
        return self._connection.execute("SELECT state FROM threads WHERE id = ?", (thread_id,)).fetchone()[0]

    def decide(self, thread_id: str, decisions: dict[str, str]) -> None:
        won = self._connection.execute(
            "UPDATE threads SET decisions = ? WHERE id = ? AND decisions IS NULL",
            (json.dumps(decisions), thread_id),
        )
        assert won.rowcount == 1


def make_durable(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A connection whose commits are on disk, as those of our saver."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def list_stores(setting: Setting, framework: str) -> Iterator[ThreadStore]:
    """The ways in which this framework's threads are kept here."""
    if setting.folder is not None:
        yield SqliteThreadStore(setting, framework)
    else:
        yield MemoryThreadStore(framework, as_text=False)
        yield MemoryThreadStore(framework, as_text=True)
