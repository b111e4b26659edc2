"""Which tenant a principal belongs to: to one, and to none if two tenants name it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.errors import CaseNotFound, NotPermitted, SettingsError, Unavailable, ValidationFailed
from placet.ports.config_store import ConfigRecord
from placet.ports.identity import Principal
from placet.relay.registry import (
    REFRESH_INTERVAL_S,
    LiveRegistry,
    RegistrySnapshot,
    build_record,
    build_revision_record,
    snapshot_from_settings,
)
from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings, RelaySettings
from placet.relay.tenants import PERMISSIONS
from placet.settings import build_settings

pytestmark = pytest.mark.anyio

NOW = datetime(2027, 1, 1, tzinfo=UTC)
ADMIN = Principal(name="root", scopes=frozenset({"admin"}))
SETTINGS = RelaySettings(
    agents={
        "weather": AgentSettings(url="https://weather.example/", credentials={"Authorization": "KEY"}),
        "mail": AgentSettings(url="https://mail.example", tenant="north"),
    },
    callers={
        "planner": CallerSettings(agents=("weather",)),
        "postman": CallerSettings(agents=("mail",), tenant="north"),
    },
    groups={
        "readers": GroupSettings(members=("ada",), permissions=("AUDIT:READ",)),
        "writers": GroupSettings(members=("ada", "planner"), permissions=("POLICIES:WRITE",)),
        "northern": GroupSettings(members=("nansen",), permissions=("GROUPS:READ",), tenant="north"),
    },
)


def build_principal(name: str) -> Principal:
    return Principal(name=name)


@pytest.fixture
def registry() -> RegistrySnapshot:
    return snapshot_from_settings(SETTINGS, {"KEY": "Bearer x"})


def test_a_member_may_do_what_its_groups_allow_together(registry: RegistrySnapshot) -> None:
    ada = registry.membership(build_principal("ada"))
    assert (ada.tenant, ada.permissions) == ("default", frozenset({"AUDIT:READ", "POLICIES:WRITE"}))
    assert registry.membership(build_principal("planner")).permissions == {"POLICIES:WRITE"}
    assert registry.membership(build_principal("postman")).permissions == frozenset()
    assert registry.membership(build_principal("nansen"), "north").tenant == "north"


def test_only_an_administrator_acts_in_another_tenant(registry: RegistrySnapshot) -> None:
    for name, tenant in (
        ("ada", "north"),
        ("nansen", "default"),
        ("stranger", None),
        ("stranger", "default"),
    ):
        with pytest.raises(NotPermitted):
            registry.membership(build_principal(name), tenant)
    with pytest.raises(NotPermitted):
        registry.membership(Principal(name=None))
    assert registry.membership(ADMIN).tenant == "default"
    south = registry.membership(ADMIN, "south")
    assert (south.tenant, south.permissions) == ("south", PERMISSIONS)
    for tenant in ("", "*", "Not One", "a" * 64):
        with pytest.raises(ValidationFailed):
            registry.membership(ADMIN, tenant)


def test_callers_reach_agents_of_their_own_tenant_only(registry: RegistrySnapshot) -> None:
    found = registry.subscription("planner", "weather")
    assert (found.tenant, found.sink.tenant, found.sink.url) == (
        "default",
        "default",
        "https://weather.example",
    )
    assert registry.subscription("postman", "mail").tenant == "north"
    for caller, agent in (("planner", "mail"), ("postman", "weather"), ("ada", "weather"), ("x", "mail")):
        with pytest.raises(CaseNotFound):
            registry.subscription(caller, agent)
    with pytest.raises(CaseNotFound):
        registry.agent("mail")  # without a key only the default tenant has agents


def test_agent_without_its_credential_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="KEY"):
        snapshot_from_settings(SETTINGS, {}).subscription("planner", "weather")


class SharedStoreMembers:
    """A store that others write to, and members who look at it."""

    def __init__(self) -> None:
        self.store = open_memory_store()
        self.time = 0.0
        self._rev = 0
        self.members = LiveRegistry(
            snapshot_from_settings(SETTINGS, {"KEY": "Bearer x"}),
            store=self.store,
            monotonic=lambda: self.time,
        )

    async def write(self, *records: ConfigRecord) -> None:
        self._rev += 1
        await self.store.change_records(save=(*records, build_revision_record(rev=self._rev, now=NOW)))

    def pass_time(self) -> None:
        self.time += REFRESH_INTERVAL_S


def build_group_record(tenant: str, name: str, **fields: Any) -> ConfigRecord:
    return build_record("group", (tenant, name), GroupSettings(**fields), rev=1, now=NOW)


async def test_stored_change_is_loaded_after_the_refresh_interval() -> None:
    here = SharedStoreMembers()
    with pytest.raises(NotPermitted):
        await here.members.membership(build_principal("bob"))
    await here.write(build_group_record("west", "all", members=("bob",), permissions=("AGENTS:READ",)))
    with pytest.raises(NotPermitted):
        await here.members.membership(build_principal("bob"))
    here.pass_time()
    assert (await here.members.membership(build_principal("bob"))).permissions == {"AGENTS:READ"}


async def test_principal_named_in_two_tenants_belongs_to_none() -> None:
    here = SharedStoreMembers()
    assert (await here.members.subscription("planner", "weather")).tenant == "default"
    await here.write(
        build_group_record("north", "thieves", members=("planner",), permissions=("AUDIT:READ",))
    )
    here.pass_time()
    with pytest.raises(NotPermitted):
        await here.members.membership(build_principal("planner"))
    with pytest.raises(CaseNotFound):
        await here.members.subscription("planner", "weather")


async def test_settings_override_the_store() -> None:
    here = SharedStoreMembers()
    other = AgentSettings(url="https://elsewhere.example")
    await here.write(
        build_record("agent", ("default", "weather"), other, rev=1, now=NOW),
        build_group_record("default", "readers", members=("eve",), permissions=("GROUPS:WRITE",)),
    )
    here.pass_time()
    assert (await here.members.subscription("planner", "weather")).sink.url == "https://weather.example"
    with pytest.raises(NotPermitted):
        await here.members.membership(build_principal("eve"))


async def test_invalid_record_grants_nothing() -> None:
    here = SharedStoreMembers()
    inside = AgentSettings(url="https://10.0.0.1")
    forged = msgspec.json.encode({"members": ["eve"], "permissions": ["AUDIT:READ"], "tenant": "north"})
    await here.write(
        build_record("agent", ("default", "inside"), inside, rev=1, now=NOW),
        build_record("caller", ("default", "bob"), CallerSettings(agents=("inside",)), rev=1, now=NOW),
        build_group_record("default", "odd", members=("eve",), permissions=("EVERYTHING",)),
        ConfigRecord(tenant="default", kind="group", id="torn", rev=1, body=b"{", saved_at=NOW),
        ConfigRecord(tenant="south", kind="group", id="forged", rev=1, body=forged, saved_at=NOW),
    )
    here.pass_time()
    with pytest.raises(CaseNotFound):
        await here.members.subscription("bob", "inside")
    # The tenant is the record's, whatever its body says.
    assert (await here.members.membership(build_principal("eve"))).tenant == "south"


@pytest.mark.parametrize(
    "relay",
    [
        {"groups": {"g": {"members": ["a"], "permissions": ["EVERYTHING"]}}},
        {"groups": {"g/h": {}}},
        {"groups": {"g": {"members": [""]}}},
        {"groups": {"g": {"tenant": "North"}}},
        {"groups": {"g": {"members": ["a"]}, "h": {"members": ["a"], "tenant": "north"}}},
        {"callers": {"a": {"agents": []}}, "groups": {"h": {"members": ["a"], "tenant": "north"}}},
        {
            "agents": {"x": {"url": "https://x.example", "tenant": "north"}},
            "callers": {"a": {"agents": ["x"]}},
        },
        {"agents": {"x": {"url": "https://x.example", "credentials": {"A": "Bearer secret"}}}},
    ],
    ids=repr,
)
def test_settings_that_contradict_themselves_are_refused(relay: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        build_settings({"relay": relay})
