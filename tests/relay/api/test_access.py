"""Addresses of an API: said beside the methods that answer there, and served in their order."""

import pytest
from msgspec import Struct

from placet.bootstrap.storage import open_memory_store
from placet.errors import CaseNotFound, SettingsError
from placet.http.route import HttpApi, OperationAddress
from placet.ports.identity import Principal
from placet.relay.registry import LiveRegistry, snapshot_from_settings
from placet.relay.settings import RelaySettings
from placet.relay.tenants import Membership
from placet.relay.transports.admin_api.access import RelayAccess, RelayRequest, RelayRouteGroup

things = RelayRouteGroup(tag="Things", read="AGENTS:READ", write="AGENTS:WRITE")
nobodys = RelayRouteGroup(tag="Nobody's", read="DREAMS:READ", write="DREAMS:WRITE")


def build_registry() -> LiveRegistry:
    return LiveRegistry(snapshot_from_settings(RelaySettings(), {}), store=open_memory_store())


class Thing(Struct):
    name: str


class ThingsApi(HttpApi):
    def __init__(self, name: str) -> None:
        self._name = name

    @things.declare(OperationAddress("POST", "/things", "makeThing"), created=True, body=Thing, reply=Thing)
    async def make(self, request: RelayRequest) -> Thing:
        """Make a thing."""
        return Thing(self._name)

    @things.get("/things/{id}", "getThing", reply=Thing, errors=(CaseNotFound,))
    async def look(self, request: RelayRequest) -> Thing:
        """Look at a thing."""
        return Thing(self._name)

    @things.declare(OperationAddress("POST", "/things/search", "findThing"), read_only=True, reply=Thing)
    async def find(self, request: RelayRequest) -> Thing:
        """Find a thing."""
        return Thing(self._name)

    @things.declare(OperationAddress("PUT", "/things/{id}", "changeThing"), body=Thing, reply=Thing)
    async def change(self, request: RelayRequest) -> Thing:
        """Change a thing."""
        return Thing(self._name)

    @things.post("/things/{id}/use", "useThing", reply=Thing)
    async def use(self, request: RelayRequest) -> Thing:
        """Use a thing."""
        return Thing(self._name)

    @things.declare(OperationAddress("DELETE", "/things/{id}", "removeThing"))
    async def remove(self, request: RelayRequest) -> None:
        """Remove a thing."""

    async def count(self) -> int:
        return 1


class UnassignedApi(HttpApi):
    @nobodys.get("/dreams", "listDreams", reply=Thing)
    async def listed(self, request: RelayRequest) -> Thing:
        """List dreams."""
        return Thing("none")


def test_routes_are_listed_in_method_order() -> None:
    told = [(one.method, one.path, one.name, one.permissions, one.status) for one in ThingsApi("a").routes()]
    assert told == [
        ("POST", "/things", "makeThing", ("AGENTS:WRITE",), 201),
        ("GET", "/things/{id}", "getThing", ("AGENTS:READ",), 200),
        ("POST", "/things/search", "findThing", ("AGENTS:READ",), 200),
        ("PUT", "/things/{id}", "changeThing", ("AGENTS:WRITE",), 200),
        ("POST", "/things/{id}/use", "useThing", ("AGENTS:WRITE",), 200),
        ("DELETE", "/things/{id}", "removeThing", ("AGENTS:WRITE",), 204),
    ]
    assert {one.tag for one in ThingsApi("a").routes()} == {"Things"}


@pytest.mark.anyio
async def test_each_api_serves_its_own_routes() -> None:
    member = Membership(principal=Principal(name="olga"), tenant="default", permissions=frozenset())
    request = RelayRequest(principal=member.principal, member=member, path={"id": "1"}, query={})
    answers = [await ThingsApi(name).routes()[1].handler(request) for name in ("a", "b")]
    assert answers == [Thing("a"), Thing("b")]


def test_route_with_unknown_permission_is_refused() -> None:
    with pytest.raises(SettingsError, match="DREAMS:READ"):
        RelayAccess(UnassignedApi().routes(), build_registry())


def test_route_with_an_additional_unknown_permission_is_refused() -> None:
    class BothApi(HttpApi):
        @things.get("/things", "listThings", permissions=(nobodys.read,), reply=Thing)
        async def listed(self, request: RelayRequest) -> Thing:
            """List things."""
            return Thing("none")

    (route,) = BothApi().routes()
    assert route.permissions == ("AGENTS:READ", "DREAMS:READ")
    with pytest.raises(SettingsError, match="DREAMS:READ"):
        RelayAccess([route], build_registry())
