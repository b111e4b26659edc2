"""Which cases a reviewer may see and decide in the inbox, for the list and for each case."""

from msgspec import Struct

from placet.desk.api_keys import RESERVED
from placet.errors import NotPermitted
from placet.ports.identity import INBOX, INBOX_ALL, Principal

NO_INBOX = f"This key does not open the inbox; it lacks the scope {INBOX}."


class InboxScope(Struct, frozen=True, kw_only=True):
    """The owners whose cases a reviewer sees."""

    own: str
    everyone: bool = False
    holds: str | None = None
    """The owner whose held messages are visible, as in the relay's approvals API; None for no owner."""

    def sees(self, owner: str | None) -> bool:
        """Return whether cases of this owner are visible. No scope crosses the tenants of the relay."""
        if owner is not None and owner.startswith(RESERVED):
            return owner == self.holds
        return self.everyone or owner == self.own


def require_inbox(principal: Principal) -> str:
    """Return the principal's name. Raises NotPermitted unless its key has an inbox scope.

    `admin` is not enough: keys that programs use must not be able to decide cases.
    """
    if principal.name is None or principal.scopes.isdisjoint({INBOX, INBOX_ALL}):
        raise NotPermitted(NO_INBOX)
    return principal.name


def build_inbox_scope(principal: Principal, holds: str | None) -> InboxScope:
    """Return what this principal sees. Raises NotPermitted for a key without an inbox scope."""
    name = require_inbox(principal)
    return InboxScope(own=name, everyone=INBOX_ALL in principal.scopes, holds=holds)
