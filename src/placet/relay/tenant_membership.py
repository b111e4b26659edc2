"""The membership of a principal in a tenant, with its permissions."""

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
"""All permissions. An API key with the scope `admin` has them in every tenant."""


class Membership(Struct, frozen=True, kw_only=True):
    """A principal in its tenant, with the permissions of its groups."""

    principal: Principal
    tenant: str
    permissions: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the member's name in records and audit events."""
        return self.principal.name or "anonymous"


class TenantDirectory(Protocol):
    """Finds the tenant of principals."""

    async def membership(self, principal: Principal, tenant: str | None = None) -> Membership:
        """Return the principal's membership. An administrator may choose any `tenant`.

        Raises NotPermitted if the principal belongs to no tenant or to another one than `tenant`.
        """
        ...


def require_permissions(member: Membership, *permissions: str) -> None:
    """Raise NotPermitted unless the member has all of these permissions."""
    for permission in permissions:
        if permission not in member.permissions:
            raise NotPermitted(
                f"You need the permission {permission}, and none of your groups has it. Ask an administrator."
            )
