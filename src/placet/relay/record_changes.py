"""Planned changes to a tenant's stored records, with their audit event."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from placet.errors import RelayConflict
from placet.ports.config_store import ConfigKind, ConfigRecord, ConfigStore
from placet.relay.tenants import Membership

MAX_ATTEMPTS = 8
T = TypeVar("T")
P_co = TypeVar("P_co", covariant=True)


class Versioned(Struct, Generic[T], frozen=True, kw_only=True):
    """A stored value and its revision number."""

    value: T
    rev: int


class RecordChange(Struct, Generic[T], frozen=True, kw_only=True):
    """The records to write and delete, the audit event, and the result for the caller."""

    save: tuple[ConfigRecord, ...] = ()
    delete: tuple[ConfigRecord, ...] = ()
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    result: T


class RecordEditor(Protocol[P_co]):
    """Applies one change at a time, each planned on the current records."""

    @property
    def now(self) -> Callable[[], datetime]:
        """Return the current time."""
        ...

    async def change(self, member: Membership, plan: Callable[[P_co], RecordChange[T]]) -> T:
        """Write the change that `plan` returns for the current state; plan again on a conflict."""
        ...


async def read_revision(store: ConfigStore, tenant: str, kind: ConfigKind, id: str) -> int:
    """Return how many times the records were changed that this record counts."""
    record = await store.get_record(tenant, kind, id)
    return 0 if record is None else record.rev


async def read_at_one_revision(
    store: ConfigStore,
    kinds: Sequence[ConfigKind],
    get_revision: Callable[[], Awaitable[int]],
    tenant: str | None = None,
) -> tuple[int, list[Sequence[ConfigRecord]]]:
    """Return a revision, and the records of each kind at it; of all tenants if `tenant` is None.

    Raises RelayConflict if they keep changing.
    """
    rev = await get_revision()
    for _ in range(MAX_ATTEMPTS):
        found = [await store.list_records(kind, tenant) for kind in kinds]
        before, rev = rev, await get_revision()
        if rev == before:
            return rev, found
    raise RelayConflict("The records changed while they were read. Try again.")
