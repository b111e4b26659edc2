"""The seam to storage: threads are kept by compare-and-set, and worked on under a lease.

A saver is plain and synchronous; an agent that runs on an event loop calls it in a thread if it may block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from placet.hook.checkpoint import Checkpoint, Stage

EMPTY_THREAD_ID = "A thread needs a name that is not empty."
WRITE_UNCERTAIN = "The server went away or fell silent; whether anything was recorded is not known."


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointRetention:
    """How much of a thread's history is kept beside its newest checkpoint, which always stays."""

    count: int = 3
    """At most so many checkpoints of a thread."""
    age: timedelta | None = None
    """None of them older than this."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("At least the newest checkpoint of a thread is kept.")


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A checkpoint as it was kept; a lease is the thread's and shows on its newest checkpoint alone."""

    checkpoint: Checkpoint
    saved_at: datetime
    leased_until: datetime | None = None


class Saver(ABC):
    """Keeps threads. Raises CheckpointConflict when someone else was faster, Unavailable when it cannot.

    A thread's id is any text but the empty one. Whatever is raised, a checkpoint is kept whole or not at all.
    """

    blocking: ClassVar[bool] = True
    """Whether a call may wait for a disk or a network."""

    @property
    def unsynced(self) -> "Saver":
        """The same threads, for writes that need not be on disk yet: a killed process leaves them behind.

        A power cut may undo them until something that was written through the saver itself has returned.
        """
        return self

    @abstractmethod
    def get(self, thread_id: str) -> SavedCheckpoint | None:
        """The newest checkpoint of a thread."""

    @abstractmethod
    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        """Keep a checkpoint if the newest one is exactly the one before it; otherwise CheckpointConflict.

        Durable when it returns. `lease_for` goes on holding the thread that long; without it, it is free.
        """

    @abstractmethod
    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        """As `put`, and only if nobody else's lease is running: otherwise ThreadBusy. One caller wins."""

    @abstractmethod
    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        """Hold the thread longer, if `rev` is still its newest; otherwise CheckpointConflict."""

    @abstractmethod
    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        """The kept checkpoints of a thread, newest first."""

    @abstractmethod
    def list_threads(self, stage: Stage) -> Sequence[str]:
        """The threads that stand at this stage, the one that has waited longest first."""

    @abstractmethod
    def release(self, thread_id: str) -> None:
        """Forget a thread and its history."""

    def close(self) -> None:
        """Give back what the saver holds; it is not used again."""
        return
