"""A cache of the newest checkpoints for a gate that writes them often."""

from datetime import timedelta

from placet.errors import NothingToResume
from placet.hook.checkpoint import Checkpoint
from placet.hook.frozen_values import replace
from placet.hook.savers.saver import SavedCheckpoint, Saver

MAX_CACHED_THREADS = 64
"""How many threads are cached."""


class CheckpointCache:
    """The threads of a saver, with their newest known checkpoints."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self._newest: dict[str, Checkpoint] = {}  # may be outdated: a put from an old one is refused

    def put(
        self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None, unsynced: bool = False
    ) -> None:
        """Save the next checkpoint of a thread; raises CheckpointConflict if another process changed it."""
        self._newest.pop(checkpoint.thread_id, None)
        (self.saver.unsynced if unsynced else self.saver).put(checkpoint, lease_for=lease_for)
        self._store(checkpoint)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        """Like `put`; raises ThreadBusy if a lease is valid, by the storage's clock."""
        self._newest.pop(checkpoint.thread_id, None)
        self.saver.claim(checkpoint, lease_for=timedelta() if lease_for is None else lease_for)
        self._store(checkpoint)

    def get_cached(self, key: str) -> Checkpoint:
        """Return the cached checkpoint: enough to mark calls, because an outdated put is refused."""
        seen = self._newest.get(key)
        return self.load(key).checkpoint if seen is None else seen

    def load(self, key: str) -> SavedCheckpoint:
        """Return the saved thread; raises NothingToResume if there is none."""
        saved = self.find(key)
        if saved is None:
            raise NothingToResume
        return saved

    def find(self, key: str) -> SavedCheckpoint | None:
        """Return the saved thread, or None."""
        saved = self.saver.get(key)
        if saved is not None:
            self._store(saved.checkpoint)
        return saved

    def release(self, key: str) -> None:
        """Delete a thread."""
        self._newest.pop(key, None)
        self.saver.unsynced.release(key)

    def _store(self, checkpoint: Checkpoint) -> None:
        while len(self._newest) >= MAX_CACHED_THREADS:
            self._newest.pop(next(iter(self._newest), ""), None)
        if (stopped := checkpoint.interruption) is not None and stopped.state:
            checkpoint = replace(checkpoint, interruption=replace(stopped, state={}))
        self._newest[checkpoint.thread_id] = checkpoint
