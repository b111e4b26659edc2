"""Which cases a person may see and decide in the inbox: one rule for the list and for every case in it."""

from msgspec import Struct

from placet.desk.api_keys import RESERVED
from placet.errors import NotPermitted
from placet.ports.identity import INBOX, INBOX_ALL, Principal

NO_INBOX = f"This key does not open the inbox; it lacks the scope {INBOX}."


class InboxScope(Struct, frozen=True, kw_only=True):
    """Whose cases somebody sees."""

    own: str
    everyone: bool = False
    holds: str | None = None
    """Whose held messages, as the relay's approvals API says; None: nobody's."""

    def sees(self, owner: str | None) -> bool:
        """Whether cases of this owner are in sight. Tenants of the relay are walls, for everyone."""
        if owner is not None and owner.startswith(RESERVED):
            return owner == self.holds
        return self.everyone or owner == self.own


def require_inbox(principal: Principal) -> str:
    """The principal's name; raises NotPermitted unless its key was made for the inbox.

    `admin` is not enough: keys that programs hold must not begin to decide.
    """
    if principal.name is None or principal.scopes.isdisjoint({INBOX, INBOX_ALL}):
        raise NotPermitted(NO_INBOX)
    return principal.name


def sight_of(principal: Principal, holds: str | None) -> InboxScope:
    """What this principal sees; raises NotPermitted for a key that does not open the inbox."""
    name = require_inbox(principal)
    return InboxScope(own=name, everyone=INBOX_ALL in principal.scopes, holds=holds)
