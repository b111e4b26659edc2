"""Authorize requests to the admin API: the key's scope, the member, its permissions; and time ranges."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from placet.desk.access import require_scope
from placet.errors import InvalidToken, SettingsError, ValidationFailed
from placet.http.route import ApiRequest, Parameter, Route, RouteGroup, check_declared_access
from placet.ports.identity import CASES_READ, CASES_WRITE
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import TENANT_QUERY
from placet.relay.tenants import PERMISSIONS, Membership, require_permissions

FIRST_YEAR, LAST_YEAR = 1971, 9000

IN_SETTINGS = "This is set in the server's settings file. Change it there."
TENANT_ID = Parameter(
    name=TENANT_QUERY,
    location="query",
    type=Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$(?!\\n)")],
    description="The tenant, for administrators. Default: `default`. Other members may send only their "
    "own tenant.",
)
IF_MATCH = Parameter(
    name="If-Match",
    location="header",
    type=str,
    description="The `rev` or `version` that you read. If it has changed since, the request fails.",
)


def check_years(**timestamps: datetime | None) -> None:
    """Raise ValidationFailed for a timestamp in a year that the store cannot represent.

    The keywords are the names of the timestamps in the query.
    """
    for name, timestamp in timestamps.items():
        if timestamp is not None and not FIRST_YEAR <= timestamp.year <= LAST_YEAR:
            raise ValidationFailed(f"{name}: must be between the years {FIRST_YEAR} and {LAST_YEAR}.")


def check_period(start: datetime | None, end: datetime | None) -> None:
    """Raise ValidationFailed if a query's `startTime` is not before its `endTime`."""
    check_years(startTime=start, endTime=end)
    if start and end and start >= end:
        raise ValidationFailed("startTime: must be before endTime.")


class RelayRequest(ApiRequest, frozen=True, kw_only=True):
    """A request of a member. `member.tenant` replaces `tenantId` of the query."""

    member: Membership


class RelayRouteGroup(RouteGroup, frozen=True, kw_only=True):
    """Routes of the relay's API with one permission to read and one to write.

    The scope limits the key, the permission limits the member: a read-only key of a member who may write
    stays read-only.
    """

    read: str
    write: str

    def complete(self, route: Route, permission: str | None) -> Route:
        """Return the route with its scope, permissions, path variables and the parameters of all routes."""
        permissions = (*([permission] if permission else []), *route.permissions)
        path = (
            Parameter(
                name=name,
                location="path",
                type=Annotated[str, Meta(min_length=1)],
                description="The id or name of the resource.",
            )
            for name in route.variables
        )
        has_if_match = route.method in ("PUT", "DELETE")
        return replace(
            route,
            scope=CASES_READ if permission == self.read else CASES_WRITE,
            permissions=permissions,
            description=f"{route.description} {_describe_permissions(permissions)}".strip(),
            parameters=(*path, *route.parameters, TENANT_ID, *((IF_MATCH,) if has_if_match else ())),
        )


class RelayAccess:
    """Authorizes members to call the routes of the relay's API."""

    def __init__(self, routes: Iterable[Route], registry: LiveRegistry) -> None:
        """Raises SettingsError for a route without a scope, or with a permission that does not exist."""
        self._registry = registry
        routes = tuple(routes)
        check_declared_access(routes)
        for route in routes:
            for permission in route.permissions:
                if permission not in PERMISSIONS:
                    raise SettingsError(f"{route.path} needs {permission}, which is not a permission.")

    async def authorize(self, route: Route, request: ApiRequest) -> RelayRequest:
        """Return the request with the member who sent it; raise InvalidToken or NotPermitted."""
        if request.principal.name is None:
            raise InvalidToken("Not authenticated. Send an API key as `Authorization: Bearer …`.")
        if route.scope is not None:
            require_scope(request.principal, route.scope)
        member = await self._registry.membership(request.principal, request.query.get(TENANT_ID.name))
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
    names = " and ".join(f"`{permission}`" for permission in permissions)
    return f"Needs the permission{'s' if len(permissions) > 1 else ''} {names}."
