"""The storage interface: threads are saved by compare-and-set, and worked on under a lease.

A saver is synchronous; an agent on an event loop calls it in a thread if it may block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from placet.hook.argument_checks import refuse
from placet.hook.checkpoint import Checkpoint, Stage

NO_SAVER = (
    'saver: say where waiting calls are stored, such as SqliteSaver("threads.db").'
    " MemorySaver() loses them when the process ends."
)
SAVER_EXAMPLES = 'a saver, such as SqliteSaver("threads.db") or MemorySaver()'
EMPTY_THREAD_ID = "A thread needs a name that is not empty."
WRITE_UNCERTAIN = "The server did not respond; whether anything was recorded is not known."


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointRetention:
    """How many earlier checkpoints of a thread are kept; the newest is always kept."""

    count: int = 3
    """The maximum number of checkpoints per thread, including the newest."""
    age: timedelta | None = None
    """The maximum age of earlier checkpoints."""

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise ValueError(f"count: must be a whole number, not {self.count!r}.")
        if self.age is not None and not isinstance(self.age, timedelta):
            raise ValueError(f"age: must be a timedelta or None, not {self.age!r}.")
        if self.count < 1:
            raise ValueError("count: must be at least 1, because the newest checkpoint is always kept.")


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A checkpoint as stored; the lease belongs to the thread and is set on the newest one only."""

    checkpoint: Checkpoint
    saved_at: datetime
    leased_until: datetime | None = None


class Saver(ABC):
    """Stores threads. Raises CheckpointConflict if another writer was faster, Unavailable on failure.

    A thread's id is any non-empty text. Even if an error is raised, a checkpoint is saved completely or not
    at all.
    """

    blocking: ClassVar[bool] = True
    """Whether a call may wait for a disk or a network."""

    @property
    def unsynced(self) -> "Saver":
        """The same threads, for writes that need not be on disk yet; they survive the death of the process.

        A power cut may undo them until a later synced write has returned.
        """
        return self

    @abstractmethod
    def get(self, thread_id: str) -> SavedCheckpoint | None:
        """Return the newest checkpoint of a thread."""

    @abstractmethod
    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        """Save a checkpoint if the newest one is exactly its predecessor; otherwise CheckpointConflict.

        Durable when it returns. `lease_for` keeps the thread leased that long; without it, it is
        free.
        """

    @abstractmethod
    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        """Like `put`, but only if no lease is valid: otherwise ThreadBusy. One caller wins."""

    @abstractmethod
    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        """Extend the lease, if `rev` is still the newest; otherwise CheckpointConflict."""

    @abstractmethod
    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        """Return the saved checkpoints of a thread, newest first."""

    @abstractmethod
    def list_threads(self, stage: Stage) -> Sequence[str]:
        """Return the threads at this stage, the one that has waited longest first."""

    @abstractmethod
    def release(self, thread_id: str) -> None:
        """Delete a thread and its history."""

    def close(self) -> None:
        """Free resources; the saver is not used again."""
        return


def require_saver(value: object) -> Saver:
    """Return the saver; raises ValueError for other values, and if there is none."""
    if value is None:
        raise ValueError(NO_SAVER)
    if not isinstance(value, Saver):
        refuse("saver", SAVER_EXAMPLES, value)
    return value
