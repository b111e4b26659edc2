"""Storage as the verification of the log reads it: rows as they are, and checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from placet.cases.audit_chain import AuditHead, ChainedAuditRow
from placet.cases.case_verification import StoredCase


class LogEntry(Struct, frozen=True, kw_only=True):
    """An event of any case, in the order in which events were written."""

    number: int
    case_number: int
    case_id: str | None
    """None if the event belongs to no stored case."""
    digest: str


class LogSize(Struct, frozen=True, kw_only=True):
    """How many cases and events there are."""

    cases: int
    events: int


class LogStore(Protocol):
    """Reads the whole log in pages, each of one moment, and stores checkpoints."""

    async def find_stored_case(self, case_id: str) -> StoredCase | None:
        """Return all rows of a case, or None if it does not exist."""
        ...

    async def list_stored_cases(self, *, after: int, limit: int = 50) -> Sequence[StoredCase]:
        """Return cases with a number above `after`, in order; fewer if they have many events."""
        ...

    async def list_log_entries(self, *, after: int, limit: int = 5_000) -> Sequence[LogEntry]:
        """Return the events of all cases with a number above `after`, in the order they were written."""
        ...

    async def list_stray_rows(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        """Return the table and case number of rows that belong to no stored case."""
        ...

    async def count_log(self) -> LogSize:
        """Return how many cases and events there are."""
        ...

    async def list_audit_heads(self) -> Mapping[str, AuditHead]:
        """Return where the chain of audit events of each tenant begins and ends."""
        ...

    async def list_chained_audit_rows(self, *, after: int, limit: int = 100) -> Sequence[ChainedAuditRow]:
        """Return audit events of all tenants in the order written, with a number above `after`."""
        ...

    async def add_checkpoint(self, document: bytes, *, made_at: int) -> None:
        """Append a checkpoint."""
        ...

    async def list_checkpoints(self, *, after: int = 0, limit: int = 500) -> Sequence[tuple[int, bytes]]:
        """Return numbered checkpoints, oldest first."""
        ...

    async def get_last_checkpoint(self) -> bytes | None:
        """Return the newest checkpoint, or None if there is none."""
        ...
