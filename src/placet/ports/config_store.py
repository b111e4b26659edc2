"""Storage for the relay's configuration: agents, callers, groups, policies, bindings, tenants.

The fields that a store searches by are columns. Everything else is in `body`, which only the relay reads.
Values that no engine can store (see `row_validation`) are refused with ValidationFailed.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from placet.ports.audit_store import AuditRow

ConfigKind = Literal[
    "agent", "caller", "group", "policy", "policy_group", "binding", "policies", "registry", "tenant"
]


class ConfigRecord(Struct, frozen=True, kw_only=True):
    """One thing that an operator configured: an agent, one version of a policy, a binding."""

    tenant: str
    kind: ConfigKind
    id: str
    rev: int
    """Counts the changes, from 1."""
    body: bytes
    saved_at: datetime


ConfigRecords = Sequence[ConfigRecord]


class ConfigStore(Protocol):
    """Stores the relay's configuration records."""

    async def save_record(self, record: ConfigRecord) -> None:
        """Write a record. Raises RelayConflict unless its `rev` is one more than the stored one (1: new)."""
        ...

    async def delete_record(self, tenant: str, kind: ConfigKind, id: str, *, rev: int) -> None:
        """Delete a record. Raises RelayConflict unless it is stored with this `rev`."""
        ...

    async def change_records(
        self, *, save: ConfigRecords = (), delete: ConfigRecords = (), events: Sequence[AuditRow] = ()
    ) -> None:
        """Write and delete records with their audit events, all or none.

        Raises RelayConflict unless each record to save has the `rev` after the stored one, and each record
        to delete has the stored one.
        """
        ...

    async def get_record(self, tenant: str, kind: ConfigKind, id: str) -> ConfigRecord | None:
        """Return one record, or None if it does not exist."""
        ...

    async def list_records(self, kind: ConfigKind, tenant: str | None = None) -> ConfigRecords:
        """Return all records of a kind, of one tenant or of all, in the order they were first saved."""
        ...

    def add_record_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop with the tenant whose records changed; None: any tenant's.

        Changes by other processes are reported within a second, as None.
        """
        ...
