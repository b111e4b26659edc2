"""The three ways in which a case ends, as the service reports them."""

from typing import Any

from msgspec import Struct


class Decided(Struct, frozen=True, kw_only=True):
    """A person decided.

    `is_affirmative` says whether the action is a yes: only the affirmative actions of the case's type are.
    `verified` says whether the service's signature is valid; it is None if the result has no signature or the
    keys could not be fetched.
    """

    case_id: str
    action: str
    is_affirmative: bool = False
    data: dict[str, Any] = {}
    responded_by: dict[str, Any] | None = None
    verified: bool | None = None
    previous_case_id: str | None = None
    next_case_id: str | None = None
    raw: dict[str, Any] = {}

    status = "completed"

    @property
    def against(self) -> bool:
        """Whether the answer is not a yes: reject, cancel, abort, edit, and every unknown action."""
        return not self.is_affirmative


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
