"""The relay's API as a whole: all its addresses, and whom it lets in."""

from collections.abc import Iterable, Mapping
from typing import Any

from placet.errors import SettingsError
from placet.ports.identity import Principal
from placet.relay.api.route import ApiRequest, ApiRoute
from placet.relay.membership.tenancy import PERMISSIONS, Membership, Tenancy, require

TENANT = "tenantId"


class ApiFront:
    """Asks the tenancy who somebody is, and the route what they need, before any route hears of it."""

    def __init__(self, routes: Iterable[ApiRoute], tenancy: Tenancy) -> None:
        self.addresses = tuple(routes)
        self._tenancy = tenancy
        for route in self.addresses:
            for permission in route.permissions:
                if permission not in PERMISSIONS:
                    raise SettingsError(f"{route.path} needs {permission}, which nobody can have.")

    async def admit(self, address: ApiRoute, principal: Principal, query: Mapping[str, str]) -> Membership:
        """The member behind a principal; raises NotPermitted for whoever may not ask this."""
        member = await self._tenancy.membership(principal, query.get(TENANT))
        require(member, *address.permissions)
        return member

    async def answer(
        self,
        address: ApiRoute,
        member: Membership,
        *,
        path: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        if_match: str | None,
    ) -> Any:
        """What the route answers."""
        asked = {name: value for name, value in query.items() if name != TENANT}
        return await address.handle(
            ApiRequest(member=member, path=path, query=asked, body=body, if_match=if_match)
        )
