"""Threads as they are kept, and as one who writes them often saw them last."""

from datetime import timedelta

from placet.errors import NothingToResume
from placet.hook.checkpoint import Checkpoint
from placet.hook.frozen_values import replace
from placet.hook.savers.saver import SavedCheckpoint, Saver

MAX_CACHED = 64
"""How many threads are remembered as they were last seen."""


class CheckpointCache:
    """The threads of a saver."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self._newest: dict[str, Checkpoint] = {}  # what was seen last; a put from an old one is refused

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None, soon: bool = False) -> None:
        """Keep a thread a step further; raises CheckpointConflict if somebody else has moved it on."""
        self._newest.pop(checkpoint.thread_id, None)
        (self.saver.soon if soon else self.saver).put(checkpoint, lease_for=lease_for)
        self._note(checkpoint)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        """As `put`; raises ThreadBusy if a lease is running, by the clock of whoever keeps the thread."""
        self._newest.pop(checkpoint.thread_id, None)
        self.saver.claim(checkpoint, lease_for=timedelta() if lease_for is None else lease_for)
        self._note(checkpoint)

    def last(self, key: str) -> Checkpoint:
        """The thread as it was seen last: enough to mark calls, since an outdated put is refused."""
        seen = self._newest.get(key)
        return self.kept(key).checkpoint if seen is None else seen

    def kept(self, key: str) -> SavedCheckpoint:
        """The thread as it is; raises NothingToResume if there is none."""
        kept = self.look(key)
        if kept is None:
            raise NothingToResume
        return kept

    def look(self, key: str) -> SavedCheckpoint | None:
        """The thread as it is, or None."""
        kept = self.saver.get(key)
        if kept is not None:
            self._note(kept.checkpoint)
        return kept

    def release(self, key: str) -> None:
        """Forget a thread."""
        self._newest.pop(key, None)
        self.saver.soon.release(key)

    def _note(self, checkpoint: Checkpoint) -> None:
        while len(self._newest) >= MAX_CACHED:
            self._newest.pop(next(iter(self._newest), ""), None)
        if (stopped := checkpoint.interruption) is not None and stopped.state:
            checkpoint = replace(checkpoint, interruption=replace(stopped, state={}))
        self._newest[checkpoint.thread_id] = checkpoint
