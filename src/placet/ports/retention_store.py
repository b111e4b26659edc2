"""Storage as the relay's retention uses it: redacting and deleting what has passed its retention period."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from placet.ports.audit_store import AuditRow


class RetentionStore(Protocol):
    """Redacts audit events and deletes old rows of the relay."""

    async def list_events_to_redact(self, tenant: str, *, before: datetime, limit: int) -> Sequence[AuditRow]:
        """Return events from before this time whose body has not been redacted yet."""
        ...

    async def redact_audit_events(self, events: Sequence[AuditRow]) -> None:
        """Replace the bodies of events and mark the events as redacted. No other field changes."""
        ...

    async def delete_older(self, tenant: str, *, before: datetime, limit: int = 1_000) -> int:
        """Delete events, settled holds and tasks from before this time, at most `limit` of each.

        Events are deleted from the beginning of their chain: one that was written after a younger one waits.
        Tasks of pending holds are not deleted. Conversations are not deleted either: another caller could
        reuse the id of a deleted one. The three deletions are separate transactions. Returns how many rows
        were deleted; call it again until it returns 0, so that other writers do not have to wait.
        """
        ...
