"""Agents, callers and groups by the API: who may register whom, and when it counts."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings, RelaySettings
from placet.relay.tenants import PERMISSIONS
from tests.relay.a2a.raw_agent import RawAgent
from tests.relay.registry.registering import register
from tests.server.running import RunningServer, running
from tests.waiting import eventually

AGENTS, CALLERS, GROUPS = "/relay/v1/registry/agents", "/relay/v1/registry/callers", "/relay/v1/groups"
SUBSCRIPTIONS = "/relay/v1/registry/subscriptions"
ALL = sorted(PERMISSIONS)


class ClientsByRole:
    """One server and a client for each kind of key."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self.admin = self.client("root", "admin")
        self.keeper = self.client("keeper")
        self.stranger = self.client("stranger")

    def client(self, name: str, *scopes: str) -> httpx.Client:
        return self._stack.enter_context(self.server.client(self.server.create_key(name, *scopes)))


@pytest.fixture(scope="module")
def clients(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientsByRole]:
    relay = RelaySettings(
        enabled=True,
        agents={"settled": AgentSettings(url="https://settled.example")},
        callers={"settler": CallerSettings(agents=("settled",))},
        groups={"keepers": GroupSettings(members=("keeper",), permissions=tuple(ALL))},
    )
    folder = tmp_path_factory.mktemp("registry")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("WEATHER_KEY", "Bearer sun")
        server = stack.enter_context(running(folder, relay=relay))
        yield ClientsByRole(server, stack)


@pytest.fixture
def admin(clients: ClientsByRole) -> httpx.Client:
    return clients.admin


@pytest.fixture
def keeper(clients: ClientsByRole) -> httpx.Client:
    return clients.keeper


def get_card(client: httpx.Client, agent_id: str) -> httpx.Response:
    return client.get(f"/relay/v1/agents/{agent_id}/.well-known/agent-card.json")


def check_refusal(response: httpx.Response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["error"]) == (status, code), response.text


def test_an_agent_and_its_caller_are_registered_and_called_at_once(
    clients: ClientsByRole, admin: httpx.Client, raw_agent: RawAgent
) -> None:
    caller = clients.client("new-caller")
    check_refusal(get_card(caller, "fresh"), 404, "not_found")
    made = admin.post(AGENTS, json={"agentId": "fresh", "url": raw_agent.url})
    assert made.status_code == 201, made.text
    assert made.json() == {
        "agentId": "fresh",
        "tenantId": "default",
        "url": raw_agent.url,
        "cardUrl": None,
        "credentials": {},
        "missingVariables": [],
        "forwardHeaders": [],
        "inputRequired": "hold",
        "unreadableFiles": "hold",
        "streaming": None,
        "relayUrl": f"{clients.server.url}/relay/v1/agents/fresh",
        "callers": [],
        "origin": "store",
        "rev": 1,
    }
    assert admin.post(CALLERS, json={"name": "new-caller", "agents": ["fresh"]}).status_code == 201
    assert get_card(caller, "fresh").json()["name"] == "Raw"
    assert admin.get(f"{AGENTS}/fresh").json()["callers"] == ["new-caller"]
    assert admin.delete(f"{SUBSCRIPTIONS}/new-caller/fresh").status_code == 204
    check_refusal(get_card(caller, "fresh"), 404, "not_found")
    assert admin.put(f"{SUBSCRIPTIONS}/new-caller/fresh").json()["sink"] == "fresh"
    assert get_card(caller, "fresh").status_code == 200
    assert admin.delete(f"{AGENTS}/fresh").status_code == 204
    check_refusal(get_card(caller, "fresh"), 404, "not_found")
    assert admin.get(f"{CALLERS}/new-caller").json()["agents"] == []


def test_an_agent_that_moves_is_called_where_it_is_now(
    clients: ClientsByRole, admin: httpx.Client, raw_agent: RawAgent
) -> None:
    caller = clients.client("follower")
    admin.post(
        AGENTS, json={"agentId": "mover", "url": f"{raw_agent.url}/nowhere", "cardUrl": raw_agent.url + "/x"}
    )
    admin.post(CALLERS, json={"name": "follower", "agents": ["mover"]})
    assert get_card(caller, "mover").status_code == 503
    moved = admin.put(f"{AGENTS}/mover", json={"url": raw_agent.url, "streaming": "whole"})
    assert (moved.status_code, moved.json()["rev"], moved.json()["streaming"]) == (200, 2, "whole")
    assert get_card(caller, "mover").status_code == 200


@pytest.mark.parametrize(
    "draft",
    [
        {"url": "http://weather.example"},
        {"url": "https://10.1.2.3"},
        {"url": "https://169.254.169.254/latest"},
        {"url": "https://user:word@weather.example"},
        {"url": "https://weather.example?x=1"},
        {"url": "https://weather.example", "streaming": "sometimes"},
        {"url": "file:///etc/passwd"},
        {"url": "https://weather.example", "cardUrl": "https://[fe80::1]/card"},
        {"url": "https://weather.example", "forwardHeaders": ["Authorization"]},
        {"url": "https://weather.example", "credentials": {"Host": "WEATHER_KEY"}},
        {"url": "https://weather.example", "credentials": {"X-Key": "not a variable"}},
        {"url": "https://weather.example", "tenant": "other"},
        {"agentId": "a/b", "url": "https://weather.example"},
        {"agentId": "..", "url": "https://weather.example"},
        {},
    ],
    ids=repr,
)
def test_invalid_agent_is_refused(admin: httpx.Client, draft: dict[str, Any]) -> None:
    check_refusal(admin.post(AGENTS, json={"agentId": "bad", **draft}), 400, "invalid_request")
    assert admin.get(f"{AGENTS}/bad").status_code == 404


def test_only_an_administrator_sets_credentials_of_agents(admin: httpx.Client, keeper: httpx.Client) -> None:
    draft = {"url": "https://weather.example", "credentials": {"Authorization": "WEATHER_KEY"}}
    check_refusal(keeper.post(AGENTS, json={"agentId": "spy", **draft}), 403, "not_permitted")
    made = admin.post(AGENTS, json={"agentId": "guarded", **draft})
    assert made.json()["credentials"] == {"Authorization": "WEATHER_KEY"}
    assert "sun" not in made.text
    elsewhere = {**draft, "url": "https://spy.example"}
    check_refusal(keeper.put(f"{AGENTS}/guarded", json=elsewhere), 403, "not_permitted")
    check_refusal(
        keeper.put(f"{AGENTS}/guarded", json={**draft, "cardUrl": "https://spy.example"}),
        403,
        "not_permitted",
    )
    unlisted = {**draft, "credentials": {}}
    check_refusal(
        keeper.put(f"{AGENTS}/guarded", json={**unlisted, "url": "https://spy.example"}), 403, "not_permitted"
    )
    harmless = keeper.put(f"{AGENTS}/guarded", json={**draft, "forwardHeaders": ["X-Region"]})
    assert harmless.json()["forwardHeaders"] == ["X-Region"]


def test_an_agent_without_its_credential_is_not_called(clients: ClientsByRole, admin: httpx.Client) -> None:
    caller = clients.client("poor")
    draft = {"url": "https://weather.example", "credentials": {"Authorization": "NOBODY_SET_THIS"}}
    made = admin.post(AGENTS, json={"agentId": "keyless", **draft})
    assert made.json()["missingVariables"] == ["NOBODY_SET_THIS"]
    admin.post(CALLERS, json={"name": "poor", "agents": ["keyless"]})
    check_refusal(get_card(caller, "keyless"), 503, "unavailable")


def test_registry_entries_of_the_settings_cannot_be_changed_by_the_api(admin: httpx.Client) -> None:
    assert admin.get(f"{AGENTS}/settled").json()["origin"] == "settings"
    check_refusal(admin.put(f"{AGENTS}/settled", json={"url": "https://other.example"}), 409, "conflict")
    check_refusal(admin.delete(f"{AGENTS}/settled"), 409, "conflict")
    check_refusal(
        admin.post(AGENTS, json={"agentId": "settled", "url": "https://a.example"}), 409, "conflict"
    )
    check_refusal(admin.put(f"{CALLERS}/settler", json={"agents": []}), 409, "conflict")
    check_refusal(admin.delete(f"{SUBSCRIPTIONS}/settler/settled"), 409, "conflict")
    check_refusal(admin.put(f"{GROUPS}/keepers", json={"permissions": []}), 409, "conflict")
    check_refusal(admin.delete(f"{GROUPS}/keepers"), 409, "conflict")


def test_groups_say_who_may_do_what(clients: ClientsByRole, admin: httpx.Client) -> None:
    reviewer = clients.client("reviewer")
    check_refusal(reviewer.get(AGENTS), 403, "not_permitted")
    made = admin.post(
        GROUPS, json={"name": "looking", "members": ["reviewer"], "permissions": ["AGENTS:READ"]}
    )
    assert made.status_code == 201, made.text
    assert reviewer.get(AGENTS).status_code == 200
    check_refusal(
        reviewer.post(AGENTS, json={"agentId": "x", "url": "https://x.example"}), 403, "not_permitted"
    )
    check_refusal(reviewer.get(GROUPS), 403, "not_permitted")
    changed = admin.put(
        f"{GROUPS}/looking", json={"members": ["reviewer"], "permissions": ["GROUPS:READ", "GROUPS:READ"]}
    )
    assert changed.json()["permissions"] == ["GROUPS:READ"]
    check_refusal(reviewer.get(AGENTS), 403, "not_permitted")
    assert {one["name"] for one in reviewer.get(GROUPS).json()["content"]} >= {"keepers", "looking"}
    assert admin.delete(f"{GROUPS}/looking").status_code == 204
    check_refusal(reviewer.get(GROUPS), 403, "not_permitted")


@pytest.mark.parametrize(
    "draft",
    [
        {"name": "g", "permissions": ["EVERYTHING"]},
        {"name": "g", "members": [""]},
        {"name": "g", "members": ["a\nb"]},
        {"name": "g/h"},
        {"name": "g", "tenant": "other"},
        {},
    ],
    ids=repr,
)
def test_invalid_group_is_refused(admin: httpx.Client, draft: dict[str, Any]) -> None:
    check_refusal(admin.post(GROUPS, json=draft), 400, "invalid_request")


def test_only_an_administrator_brings_a_key_into_a_tenant(
    clients: ClientsByRole, keeper: httpx.Client
) -> None:
    for path, draft in ((GROUPS, {"name": "more", "members": ["stranger"]}), (CALLERS, {"name": "stranger"})):
        check_refusal(keeper.post(path, json=draft), 403, "not_permitted")
    mine = keeper.post(GROUPS, json={"name": "mine", "members": ["keeper"], "permissions": ["AUDIT:READ"]})
    assert mine.status_code == 201, mine.text
    check_refusal(clients.stranger.get(AGENTS), 403, "not_permitted")


def test_a_principal_belongs_to_one_tenant(clients: ClientsByRole, admin: httpx.Client) -> None:
    north: Any = {"params": {"tenantId": "north"}}
    made = admin.post(GROUPS, json={"name": "north-only", "members": ["amundsen"]}, **north)
    assert made.json()["tenantId"] == "north"
    check_refusal(admin.post(GROUPS, json={"name": "south", "members": ["amundsen"]}), 409, "conflict")
    check_refusal(admin.post(CALLERS, json={"name": "amundsen"}), 409, "conflict")
    assert admin.post(CALLERS, json={"name": "amundsen"}, **north).status_code == 201


def test_tenants_cannot_see_each_other(
    clients: ClientsByRole, admin: httpx.Client, raw_agent: RawAgent
) -> None:
    west: Any = {"params": {"tenantId": "west"}}
    boss, caller = clients.client("west-boss"), clients.client("west-caller")
    admin.post(GROUPS, json={"name": "bosses", "members": ["west-boss"], "permissions": ALL}, **west)
    # The same id in two tenants is two agents.
    assert admin.post(AGENTS, json={"agentId": "twin", "url": "https://east.example"}).status_code == 201
    assert boss.post(AGENTS, json={"agentId": "twin", "url": raw_agent.url}).status_code == 201
    admin.post(CALLERS, json={"name": "west-caller", "agents": ["twin"]}, **west)
    assert get_card(caller, "twin").json()["name"] == "Raw"
    assert boss.get(f"{AGENTS}/twin").json()["tenantId"] == "west"
    assert boss.get(f"{AGENTS}/settled").status_code == 404
    assert [one["name"] for one in boss.get(GROUPS).json()["content"]] == ["bosses"]
    check_refusal(boss.get(AGENTS, params={"tenantId": "default"}), 403, "not_permitted")
    assert boss.get(AGENTS, params={"tenantId": "west"}).status_code == 200
    check_refusal(boss.post(CALLERS, json={"name": "x", "agents": ["settled"]}), 403, "not_permitted")
    assert boss.delete(f"{AGENTS}/twin").status_code == 204
    assert admin.get(f"{AGENTS}/twin").json()["url"] == "https://east.example"


def test_subscription_to_an_unknown_agent_is_refused(admin: httpx.Client) -> None:
    check_refusal(admin.post(CALLERS, json={"name": "lost", "agents": ["nobody"]}), 400, "invalid_request")
    assert (
        admin.post(CALLERS, json={"name": "lost", "agents": ["settled"], "kind": "user"}).status_code == 201
    )
    check_refusal(admin.put(f"{SUBSCRIPTIONS}/lost/nobody"), 400, "invalid_request")
    check_refusal(admin.put(f"{SUBSCRIPTIONS}/nobody/settled"), 404, "not_found")
    check_refusal(admin.delete(f"{SUBSCRIPTIONS}/lost/nobody"), 404, "not_found")
    listed = admin.get(SUBSCRIPTIONS, params={"source": "lost"}).json()
    assert [(one["sink"], one["sourceKind"]) for one in listed["content"]] == [("settled", "user")]


def test_stale_revision_is_refused(admin: httpx.Client) -> None:
    admin.post(AGENTS, json={"agentId": "busy", "url": "https://one.example"})
    late: Any = {"json": {"url": "https://two.example"}, "headers": {"If-Match": '"7"'}}
    check_refusal(admin.put(f"{AGENTS}/busy", **late), 409, "conflict")
    assert admin.put(f"{AGENTS}/busy", **late | {"headers": {"If-Match": '"1"'}}).json()["rev"] == 2
    check_refusal(admin.delete(f"{AGENTS}/busy", headers={"If-Match": "1"}), 409, "conflict")


def test_lists_come_in_pages(admin: httpx.Client) -> None:
    page = admin.get(AGENTS, params={"size": 1, "page": 1}).json()
    assert (len(page["content"]), page["number"], page["size"], page["first"]) == (1, 1, 1, False)
    check_refusal(admin.get(AGENTS, params={"size": 0}), 400, "invalid_request")
    check_refusal(admin.get(f"{AGENTS}?page=1&page=2"), 400, "invalid_request")
    check_refusal(admin.get(AGENTS, params={"tenantId": "No Such"}), 400, "invalid_request")


def test_what_another_process_registers_is_seen_soon(
    clients: ClientsByRole, admin: httpx.Client, tmp_path: Path
) -> None:
    asyncio.run(register(clients.server.parts.settings.db, "from-outside", "https://outside.example"))
    eventually(lambda: admin.get(f"{AGENTS}/from-outside").status_code == 200)


def test_every_change_is_in_the_audit(clients: ClientsByRole, admin: httpx.Client) -> None:
    admin.post(AGENTS, json={"agentId": "told", "url": "https://told.example"})
    told = [
        one
        for one in admin.get(
            "/audit/v1/events", params={"size": 200, "auditType": "REGISTRY_LIFECYCLE"}
        ).json()["content"]
        if (one["metadata"] or {}).get("agentId") == "told"
    ]
    assert [(one["sourceUser"]["id"], one["metadata"]["operation"]) for one in told] == [("root", "CREATED")]


def test_unsupported_method_lists_the_allowed_ones(admin: httpx.Client, clients: ClientsByRole) -> None:
    response = admin.patch(f"{AGENTS}/x")
    check_refusal(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}
    check_refusal(admin.get("/relay/v1/registry/nothing"), 404, "not_found")
    assert admin.head(AGENTS).status_code == 200


def test_concurrent_registrations_all_count(clients: ClientsByRole, admin: httpx.Client) -> None:
    async def many() -> list[int]:
        headers = dict(admin.headers)
        async with httpx.AsyncClient(base_url=clients.server.url, headers=headers, timeout=60) as client:
            drafts = [{"agentId": f"one-{number}", "url": "https://x.example"} for number in range(8)]
            replies = await asyncio.gather(*(client.post(AGENTS, json=draft) for draft in drafts))
            return [reply.status_code for reply in replies]

    assert asyncio.run(many()) == [201] * 8


def test_registry_in_the_store_starts_the_relay(tmp_path: Path, raw_agent: RawAgent) -> None:
    with (
        running(tmp_path) as server,
        server.client(server.api_key) as caller,
        server.client(server.create_key("root", "admin")) as admin,
    ):
        check_refusal(caller.get(AGENTS), 404, "not_found")
        assert server.parts.relay is None
        asyncio.run(register(server.parts.settings.db, "first", raw_agent.url))
        eventually(lambda: caller.get(AGENTS).status_code != 404)
        assert server.parts.relay is not None
        assert admin.get(f"{AGENTS}/first").json()["url"] == raw_agent.url


def test_relay_that_cannot_start_serves_nothing(tmp_path: Path, raw_agent: RawAgent) -> None:
    relay = RelaySettings(policies=str(tmp_path / "nowhere.toml"))
    with running(tmp_path, relay=relay) as server, server.client(server.create_key("root", "admin")) as admin:
        asyncio.run(register(server.parts.settings.db, "first", raw_agent.url))
        eventually(lambda: admin.get(AGENTS).status_code == 500)
        assert server.parts.relay is None
        assert get_card(admin, "first").status_code in (404, 500)
        assert server.run(server.parts.store.list_records("agent"))
