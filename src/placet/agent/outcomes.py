"""How a question ended. There are three ways, and none of them is made up by the agent."""

from typing import Any

from msgspec import Struct

from placet.reviews.registry import find_action


class Decided(Struct, frozen=True, kw_only=True):
    """A person decided; `verified` says whether the service's signature holds, None if nobody can tell.

    That is so where the service gave no signature, or its keys could not be fetched.
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
        """Whether the person said no, or not so: reject, cancel, abort, or edit, which asks for changes."""
        declared = find_action(self.action)
        return declared is not None and declared.is_against


class Expired(Struct, frozen=True, kw_only=True):
    """Nobody answered in time; what that means is the service's rule, and never a person's approval."""

    case_id: str
    default_action: str
    raw: dict[str, Any] = {}

    status = "expired"


class Cancelled(Struct, frozen=True, kw_only=True):
    """The question was withdrawn, by the service or by a person who would not decide."""

    case_id: str
    reason: str | None = None
    raw: dict[str, Any] = {}

    status = "cancelled"


Outcome = Decided | Expired | Cancelled
