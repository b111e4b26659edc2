"""Storage for grants: calls that a reviewer approved in advance."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from placet.cases.grant import Grant, GrantUse


class GrantStore(Protocol):
    """Reads grants. They are written by `CaseStore.update_case`, with the case they belong to."""

    async def get_grant(self, grant_id: str) -> Grant | None:
        """Return one grant in any state, or None if it does not exist."""
        ...

    async def list_grants(
        self, owner: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> Sequence[Grant]:
        """Return grants of an owner or all, newest first. `before` is the last id seen."""
        ...

    async def list_grants_of_case(self, case_id: str) -> Sequence[Grant]:
        """Return the grants that were given with a case, newest first."""
        ...

    async def list_usable_grants(self, owner: str, tool: str, now: datetime) -> Sequence[Grant]:
        """Return the owner's grants for this tool that are neither expired, revoked nor used up."""
        ...

    async def get_grant_use(self, owner: str, key: str) -> GrantUse | None:
        """Return the use that was counted under this key."""
        ...
