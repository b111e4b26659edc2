"""Addresses of an API: said beside the methods that answer there, and served in their order."""

import pytest
from msgspec import Struct

from placet.errors import CaseNotFound, SettingsError
from placet.ports.identity import Principal
from placet.relay.api.front import ApiFront
from placet.relay.api.route import ApiRequest
from placet.relay.api.topic import Api, Topic
from placet.relay.membership.members import Members
from placet.relay.membership.roster import roster_of
from placet.relay.membership.tenancy import Membership
from placet.relay.settings import RelaySettings

things = Topic(tag="Things", read="AGENTS:READ", write="AGENTS:WRITE")
nobodys = Topic(tag="Nobody's", read="DREAMS:READ", write="DREAMS:WRITE")


class Thing(Struct):
    name: str


class ThingsApi(Api):
    def __init__(self, name: str) -> None:
        self._name = name

    @things.create("/things", "makeThing", takes=Thing, gives=Thing)
    async def make(self, request: ApiRequest) -> Thing:
        """Make a thing."""
        return Thing(self._name)

    @things.get("/things/{id}", "getThing", gives=Thing, errors=(CaseNotFound,))
    async def look(self, request: ApiRequest) -> Thing:
        """Look at a thing."""
        return Thing(self._name)

    @things.ask("/things/search", "findThing", gives=Thing)
    async def find(self, request: ApiRequest) -> Thing:
        """Find a thing."""
        return Thing(self._name)

    @things.put("/things/{id}", "changeThing", takes=Thing, gives=Thing)
    async def change(self, request: ApiRequest) -> Thing:
        """Change a thing."""
        return Thing(self._name)

    @things.post("/things/{id}/use", "useThing", gives=Thing)
    async def use(self, request: ApiRequest) -> Thing:
        """Use a thing."""
        return Thing(self._name)

    @things.delete("/things/{id}", "removeThing")
    async def remove(self, request: ApiRequest) -> None:
        """Remove a thing."""

    async def count(self) -> int:
        return 1


class NobodysApi(Api):
    @nobodys.get("/dreams", "listDreams", gives=Thing)
    async def listed(self, request: ApiRequest) -> Thing:
        """List dreams."""
        return Thing("none")


def test_each_address_says_what_it_is_in_the_order_of_the_methods() -> None:
    told = [(one.method, one.path, one.name, one.permission, one.status) for one in ThingsApi("a").routes()]
    assert told == [
        ("POST", "/things", "makeThing", "AGENTS:WRITE", 201),
        ("GET", "/things/{id}", "getThing", "AGENTS:READ", 200),
        ("POST", "/things/search", "findThing", "AGENTS:READ", 200),
        ("PUT", "/things/{id}", "changeThing", "AGENTS:WRITE", 200),
        ("POST", "/things/{id}/use", "useThing", "AGENTS:WRITE", 200),
        ("DELETE", "/things/{id}", "removeThing", "AGENTS:WRITE", 204),
    ]
    assert {one.tag for one in ThingsApi("a").routes()} == {"Things"}


@pytest.mark.anyio
async def test_each_api_answers_for_itself() -> None:
    member = Membership(principal=Principal(name="olga"), tenant="default", permissions=frozenset())
    request = ApiRequest(member=member, path={"id": "1"}, query={})
    answers = [await ThingsApi(name).routes()[1].handle(request) for name in ("a", "b")]
    assert answers == [Thing("a"), Thing("b")]


def test_an_address_that_nobody_could_ask_is_no_address() -> None:
    with pytest.raises(SettingsError, match="DREAMS:READ"):
        ApiFront(NobodysApi().routes(), Members(roster_of(RelaySettings(), {})))


def test_an_address_that_needs_more_than_anybody_can_have_is_no_address() -> None:
    class BothApi(Api):
        @things.get("/things", "listThings", besides=(nobodys.read,), gives=Thing)
        async def listed(self, request: ApiRequest) -> Thing:
            """List things."""
            return Thing("none")

    (route,) = BothApi().routes()
    assert route.permissions == ("AGENTS:READ", "DREAMS:READ")
    with pytest.raises(SettingsError, match="DREAMS:READ"):
        ApiFront([route], Members(roster_of(RelaySettings(), {})))
