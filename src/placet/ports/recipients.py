"""The interface to those who are notified: who they are, where messages reach them, and who may answer."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

NotificationKind = Literal["new_case", "reminder", "expiry_warning"]
"""What a recipient is notified of."""

ALL_KINDS: tuple[NotificationKind, ...] = ("new_case", "reminder", "expiry_warning")


class Recipient(Struct, frozen=True, kw_only=True):
    """A person or a group that is notified together."""

    name: str
    addresses: tuple[str, ...]
    """Where messages go, each as `channel:address`, such as `telegram:4711`."""
    answerers: Mapping[str, str] = {}
    """Who may answer with a button: the platform's user id as `channel:id`, and the person's name."""
    kinds: Collection[NotificationKind] = ALL_KINDS


class CaseTraits(Struct, frozen=True, kw_only=True):
    """What the rules look at to choose the recipients of a new case."""

    type: str
    entry_point: str
    principal: str | None
    labels: tuple[str, ...] = ()


class RecipientDirectory(Protocol):
    """Knows the recipients and the rules that choose them."""

    async def choose(self, traits: CaseTraits) -> Sequence[str]:
        """Return the names of the recipients that the rules choose for a case."""
        ...

    async def resolve(self, names: Collection[str]) -> Sequence[Recipient]:
        """Return the recipients with these names, in their order; unknown names are left out."""
        ...
