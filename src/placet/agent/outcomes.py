"""The three ways in which a case ends, as the service reports them."""

from typing import Any

from msgspec import Struct

from placet.reviews.registry import find_action


class Decided(Struct, frozen=True, kw_only=True):
    """A person decided. `verified` says whether the service's signature is valid.

    It is None if the result has no signature or the keys could not be fetched.
    """

    case_id: str
    action: str
    data: dict[str, Any] = {}
    responded_by: dict[str, Any] | None = None
    verified: bool | None = None
    previous_case_id: str | None = None
    next_case_id: str | None = None
    raw: dict[str, Any] = {}

    status = "completed"

    @property
    def against(self) -> bool:
        """Whether the person did not approve: reject, cancel, abort, or edit, which requests changes."""
        declared = find_action(self.action)
        return declared is not None and declared.is_against


class Expired(Struct, frozen=True, kw_only=True):
    """Nobody answered in time. The service applies `default_action`; it is never a person's approval."""

    case_id: str
    default_action: str
    raw: dict[str, Any] = {}

    status = "expired"


class Cancelled(Struct, frozen=True, kw_only=True):
    """The case was cancelled, by the service or by a person who declined to decide."""

    case_id: str
    reason: str | None = None
    raw: dict[str, Any] = {}

    status = "cancelled"


Outcome = Decided | Expired | Cancelled
