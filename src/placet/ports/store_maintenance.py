"""Readiness, cleanup and closing of a store."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class OperationHealth(Struct, frozen=True, kw_only=True):
    """How one kind of operation fares: reads, or writes."""

    refused: int
    """How many were refused because the storage failed."""
    is_failing: bool
    """Whether the last one failed."""


class StoreMaintenance(Protocol):
    """What a server does with its store as a whole."""

    async def check_ready(self) -> None:
        """Raise Unavailable if the store cannot be read or written. Writes, but not at every call."""
        ...

    def read_health(self) -> Mapping[str, OperationHealth]:
        """Return the health of reads and writes, by the name of the operation."""
        ...

    async def purge(self, now: datetime) -> int:
        """Delete expired idempotency records and grant uses; return how many idempotency records.

        Also deletes deliveries of no case that were settled more than `RETAIN_NOTICES_FOR` ago.
        """
        ...

    async def aclose(self) -> None:
        """Finish the accepted writes and close."""
        ...
