"""A change of what a tenant keeps: what is written, what the audit tells of it, and who makes it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from placet.ports.config_store import ConfigRecord
from placet.relay.registry.tenant_membership import Membership

T = TypeVar("T")
P_co = TypeVar("P_co", covariant=True)


class Versioned(Struct, Generic[T], frozen=True, kw_only=True):
    """What a record says, and how often it changed."""

    value: T
    rev: int


class RecordChange(Struct, Generic[T], frozen=True, kw_only=True):
    """What to write, what the audit tells of it, and what whoever asked for it gets."""

    save: tuple[ConfigRecord, ...] = ()
    delete: tuple[ConfigRecord, ...] = ()
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    result: T


class RecordEditor(Protocol[P_co]):
    """Writes one change at a time, each planned on all that is kept at that moment."""

    @property
    def now(self) -> Callable[[], datetime]:
        """Tells the moment of a change."""
        ...

    async def change(self, member: Membership, plan: Callable[[P_co], RecordChange[T]]) -> T:
        """Write what `plan` makes of the present; it is asked again if someone else was faster."""
        ...
