"""One run at a time for sessions that a framework stores itself."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial

from placet.errors import CheckpointConflict, ThreadBusy
from placet.hook.checkpoint import Checkpoint
from placet.hook.gate import Gate
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat


class SessionClaims:
    """Claims a session in a gate's saver, so that two processes do not continue it at the same time."""

    def __init__(self, gate: Gate, lease_for: timedelta = DEFAULT_LEASE) -> None:
        self._gate, self._lease_for = gate, lease_for
        self._heartbeat = Heartbeat(lease_for)

    @contextmanager
    def hold(self, session: str) -> Iterator[None]:
        """Hold the session; raises ThreadBusy while another run holds it."""
        held = self._take(session)
        try:
            with self._heartbeat.renewing(self._gate.saver, held):
                yield
        finally:
            self._give_back(held)

    @asynccontextmanager
    async def ahold(self, session: str) -> AsyncIterator[None]:
        """Async version of `hold`."""
        run_blocking = self._gate.run_blocking
        held = await run_blocking(partial(self._take, session), on_cancel=self._give_back)
        try:
            with self._heartbeat.renewing(self._gate.saver, held):
                yield
        finally:
            await run_blocking(partial(self._give_back, held))

    def _take(self, session: str) -> Checkpoint:
        key = f"run of {session}"
        saved = self._gate.saver.get(key)
        before = Checkpoint(thread_id=key) if saved is None else saved.checkpoint
        held = before.next(stage="running")
        try:
            self._gate.saver.claim(held, lease_for=self._lease_for)
        except CheckpointConflict:
            raise ThreadBusy from None
        return held

    def _give_back(self, held: Checkpoint) -> None:
        with suppress(CheckpointConflict):  # another run took it over when the lease had ended
            self._gate.saver.put(held.next(stage="ready"))
