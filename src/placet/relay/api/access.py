"""Who may call the relay's API: the member behind a principal, and the permissions that each route needs."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from placet.errors import InvalidToken, SettingsError
from placet.http.route import ApiRequest, Parameter, Route, RouteGroup
from placet.relay.registry.tenant_membership import (
    PERMISSIONS,
    Membership,
    TenantDirectory,
    require_permissions,
)

IN_SETTINGS = "This is set in the server's settings file; change it there."
TENANT_ID = Parameter(
    name="tenantId",
    location="query",
    type=Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$(?!\\n)")],
    description="Where an administrator acts; the tenant `default` unless said. "
    "Others name their own, or none.",
)
IF_MATCH = Parameter(
    name="If-Match",
    location="header",
    type=str,
    description="What you saw, by its `rev` or `version`; if it has changed since, nothing is changed.",
)


class RelayRequest(ApiRequest, frozen=True, kw_only=True):
    """A request of a member; its query no longer holds `tenantId`, which `member.tenant` has followed."""

    member: Membership


class RelayRouteGroup(RouteGroup, frozen=True, kw_only=True):
    """Routes of the relay's API: reading needs one permission, writing another."""

    read: str
    write: str

    def complete(self, route: Route, permission: str | None) -> Route:
        """Add the permissions, the path's variables, and what every route of the relay accepts."""
        permissions = (*([permission] if permission else []), *route.permissions)
        path = (
            Parameter(
                name=name,
                location="path",
                type=Annotated[str, Meta(min_length=1)],
                description="As it was given when it was made.",
            )
            for name in route.variables
        )
        changes = route.method in ("PUT", "DELETE")
        return replace(
            route,
            permissions=permissions,
            description=f"{route.description} {_describe_permissions(permissions)}".strip(),
            parameters=(*path, *route.parameters, TENANT_ID, *((IF_MATCH,) if changes else ())),
        )


class RelayAccess:
    """Lets members with the right permissions call the routes of the relay's API."""

    def __init__(self, routes: Iterable[Route], tenancy: TenantDirectory) -> None:
        """Raises SettingsError for a route with a permission that does not exist."""
        self._tenancy = tenancy
        for route in routes:
            for permission in route.permissions:
                if permission not in PERMISSIONS:
                    raise SettingsError(f"{route.path} needs {permission}, which nobody can have.")

    async def authorize(self, route: Route, request: ApiRequest) -> RelayRequest:
        """Return the request with the member who sent it; raise InvalidToken or NotPermitted."""
        if request.principal.name is None:
            raise InvalidToken("Send an API key as `Authorization: Bearer …`.")
        member = await self._tenancy.membership(request.principal, request.query.get(TENANT_ID.name))
        require_permissions(member, *route.permissions)
        return RelayRequest(
            principal=request.principal,
            member=member,
            path=request.path,
            query={name: value for name, value in request.query.items() if name != TENANT_ID.name},
            body=request.body,
            if_match=request.if_match,
        )


def _describe_permissions(permissions: tuple[str, ...]) -> str:
    named = " and ".join(f"`{one}`" for one in permissions)
    return f"Needs the permission{'s' if len(permissions) > 1 else ''} {named}."
