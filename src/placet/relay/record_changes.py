"""Planned changes to a tenant's stored records, with their audit event."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from placet.ports.config_store import ConfigRecord
from placet.relay.tenants import Membership

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
