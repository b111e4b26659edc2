"""Readiness, cleanup and closing of a store."""

from datetime import datetime
from typing import Protocol


class StoreMaintenance(Protocol):
    """What a server does with its store as a whole."""

    async def check_ready(self) -> None:
        """Raise Unavailable if the store cannot serve."""
        ...

    async def purge(self, now: datetime) -> int:
        """Delete expired idempotency records and grant uses; return how many idempotency records.

        Also deletes deliveries of no case that were settled more than `RETAIN_NOTICES_FOR` ago.
        """
        ...

    async def aclose(self) -> None:
        """Finish the accepted writes and close."""
        ...
