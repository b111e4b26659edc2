"""A write that shows whether the database can be written, and leaves no row."""

import asyncio
import time
from collections.abc import Callable

from placet.stores.sql.operation import WriteOperation
from placet.stores.sql.outage_log import OutageLog
from placet.stores.sql.writer import Rows, Writer

PROBE_EVERY_S = 5.0

# The pages of the row are allocated, written and freed: about as many as a new case takes.
PROBE = WriteOperation(statements=(("insert_probe", ()), ("delete_probe", ())))


class WriteProbe:
    """Writes at most every five seconds while writes succeed, and once for all callers that wait."""

    def __init__(
        self, writer: Writer, outages: OutageLog, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._writer = writer
        self._outages = outages
        self._monotonic = monotonic
        self._written_at: float | None = None
        self._running: asyncio.Future[Rows] | None = None

    async def run(self) -> None:
        """Raise Unavailable if the database cannot be written."""
        if self._is_recent():
            return
        running = self._running
        if running is None or running.done():
            running = self._running = self._writer.submit(PROBE)
            running.add_done_callback(_retrieve_error)
        await asyncio.shield(running)
        self._written_at = self._monotonic()

    def _is_recent(self) -> bool:
        if self._outages.is_failing or self._written_at is None:
            return False
        return self._monotonic() - self._written_at < PROBE_EVERY_S


def _retrieve_error(running: "asyncio.Future[Rows]") -> None:
    """Mark the error as retrieved: everybody who waited may have been cancelled."""
    if not running.cancelled():
        running.exception()
