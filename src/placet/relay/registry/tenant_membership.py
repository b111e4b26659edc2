"""Which tenant a principal belongs to, and its permissions there."""

from typing import Protocol

from msgspec import Struct

from placet.errors import NotPermitted
from placet.ports.identity import Principal

PERMISSIONS = frozenset(
    {
        "AGENT_CONVERSATIONS:READ",
        "AGENT_CONVERSATIONS:WRITE",
        "AGENTS:READ",
        "AGENTS:WRITE",
        "AUDIT:READ",
        "GROUPS:READ",
        "GROUPS:WRITE",
        "POLICIES:READ",
        "POLICIES:WRITE",
    }
)
"""All there are; a key with the scope `admin` has them in every tenant."""


class Membership(Struct, frozen=True, kw_only=True):
    """A principal in its tenant."""

    principal: Principal
    tenant: str
    permissions: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """How records and the audit name the member."""
        return self.principal.name or "anonymous"


class TenantDirectory(Protocol):
    """Knows who belongs where."""

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """The member behind a principal; `tenant` is where an administrator wants to act.

        Raises NotPermitted for whoever belongs nowhere, or asks for another's tenant.
        """
        ...


def require_permissions(member: Membership, *permissions: str) -> None:
    """Raise NotPermitted unless the member's groups allow all of it."""
    for permission in permissions:
        if permission not in member.permissions:
            raise NotPermitted(f"This needs the permission {permission}, which none of your groups grants.")
