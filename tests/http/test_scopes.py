"""Every route of the table, tried with every scope: the table below says which scope opens which route.

Routes are taken from the server: a new one is tried without a line here, and fails until the table names it.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc

from placet.desk.api_keys import create_key, revoke_key
from placet.errors import SettingsError
from placet.http.route import ApiRequest, HttpApi, Route, RouteGroup, check_declared_access
from placet.mcp.http_transport import MCP_ROUTE
from placet.ports.identity import ALL_SCOPES, Principal
from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings, GrpcSettings, RelaySettings
from placet.relay.tenants import PERMISSIONS
from tests.relay.a2a.raw_agent import RawAgent, answer_with, run_raw_agent
from tests.relay.sample_records import POLICY, SampleRecords, build_message_call
from tests.server.running import RunningServer, running

READ, WRITE, ANSWER = "cases:read", "cases:write", "cases:answer"
PUBLIC = "no API key"
"""A key makes no difference: pages with their own sessions, files, and what anyone may read."""
OWN_TOKEN = "a token that is no API key"
WRITING = """
    openCase cancelCase reportCalls saveCallback replayDelivery useGrant revokeGrant
    callAgent sendMessage resolveApproval linkToApproval
    registerAgent changeAgent removeAgent registerCaller changeCaller removeCaller subscribe unsubscribe
    createGroup changeGroup removeGroup createPolicy updatePolicy retirePolicy
    createPolicyGroup updatePolicyGroup deletePolicyGroup
    createPolicyBinding reorderPolicyBindings updatePolicyBinding deletePolicyBinding changeTenant
"""
READING = """
    listCases pollCase followCase listCallbacks listDeliveries listGrants showGrant
    readAgentCard listApprovals getApproval listAgents getAgent listCallers getCaller listSubscriptions
    listGroups getGroup evaluatePolicies replayPolicy listPolicies getPolicy listPolicyVersions
    getPolicyVersion listPolicyGroups getPolicyGroup listPolicyBindings getPolicyBinding
    listAuditEvents getAuditEvent listTraces getTrace exportAuditEvents getTenant
"""
WITH_OWN_TOKEN = "respond submit pushNotification"
WITHOUT_KEY = """
    discover readSigningKeys readDescription showApiDocs checkHealth checkReadiness readMetrics
    showReviewPage followReviewPage markOpened answerOnPage redirectFromReviews redirectFromReviewPath
    handBack changeLanguage passOn revokeGrantOnPage saveDraft
    showInbox signIn signOut openFromInbox redirectToInbox turnOnNotifications readNotificationWorker
    showVerification verifyAnswer showPasskeyRegistration registerPasskey
    readVersionedFile readFile showFrontPage
"""
NEEDS = {
    **dict.fromkeys(WRITING.split(), WRITE),
    **dict.fromkeys(READING.split(), READ),
    "answerCase": ANSWER,
    **dict.fromkeys(WITH_OWN_TOKEN.split(), OWN_TOKEN),
    **dict.fromkeys(WITHOUT_KEY.split(), PUBLIC),
}
ANONYMOUS = ("pollCase", "followCase")
"""Routes on which a case that was opened without a key may be read without one."""
INVALID = ("unknown", "revoked", "expired", "malformed")
CALL = build_message_call("hello")
VARIABLE = re.compile(r"{\w+(:path)?}")


class Keys:
    """One key for each scope and each way to be invalid, all of a member who has every permission."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        store, now = server.parts.store, server.clock()
        self.secrets: dict[str, str] = {one: server.create_key("boss", one) for one in ALL_SCOPES}
        self.secrets["revoked"] = server.create_key("boss", "admin")
        last = server.run(store.list_api_keys())[-1]
        server.run(revoke_key(store, last.id, now))
        self.secrets["expired"] = server.run(
            create_key(store, "boss", now=now - timedelta(days=2), expires_for=timedelta(days=1))
        )
        self.secrets["unknown"] = "placet_made_up"
        self.secrets["malformed"] = "no key at all; admin"

    def headers(self, name: str) -> dict[str, str]:
        return {} if name == "nobody" else {"Authorization": f"Bearer {self.secrets[name]}"}


@contextmanager
def running_relay(folder: Path, agent: RawAgent) -> Iterator[RunningServer]:
    settings = RelaySettings(
        enabled=True,
        agents={"ours": AgentSettings(url=agent.url)},
        callers={"boss": CallerSettings(agents=("ours",)), "caller": CallerSettings(agents=("ours",))},
        groups={"all": GroupSettings(members=("boss",), permissions=tuple(sorted(PERMISSIONS)))},
        grpc=GrpcSettings(listen="127.0.0.1:0"),
    )
    with running(folder, relay=settings) as server:
        yield server


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture(scope="module")
def agent(stack: ExitStack) -> RawAgent:
    found = stack.enter_context(run_raw_agent())
    found.behave = answer_with(200, b'{"jsonrpc":"2.0","id":1,"result":{}}')
    return found


@pytest.fixture(scope="module")
def keys(stack: ExitStack, agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(stack.enter_context(running_relay(tmp_path_factory.mktemp("scopes"), agent)))


@pytest.fixture(scope="module")
def client(stack: ExitStack, keys: Keys) -> httpx.Client:
    return stack.enter_context(keys.server.client())


def ask(client: httpx.Client, route: Route, headers: dict[str, str]) -> httpx.Response:
    path = VARIABLE.sub("nothing", route.path.replace("{agentId}", "ours"))
    body: Any = {} if route.body is not None else None
    if route.name in ("callAgent", "sendMessage"):
        body, headers = CALL, {**headers, "A2A-Version": "1.0"}
    return client.request(route.method, path, json=body, headers=headers)


def test_every_route_has_its_line_in_the_table(keys: Keys) -> None:
    assert {one.name for one in keys.server.parts.routes} == set(NEEDS)


def test_every_route_declares_what_the_table_says(keys: Keys) -> None:
    for route in keys.server.parts.routes:
        scope = NEEDS[route.name] if NEEDS[route.name] in (READ, WRITE, ANSWER) else None
        assert route.scope == scope, route.name
        assert route.credential.startswith("apiKey") == (scope is not None), route.name


def test_every_route_is_open_for_its_scope_and_for_no_other(keys: Keys, client: httpx.Client) -> None:
    wrong = []
    tried = 0
    for route in keys.server.parts.routes:
        need = NEEDS[route.name]
        without = ask(client, route, {})
        for name in ("nobody", *INVALID, *ALL_SCOPES):
            answer = without if name == "nobody" else ask(client, route, keys.headers(name))
            tried += 1
            if need == PUBLIC:
                expected: tuple[int, ...] = (without.status_code,)
            elif need == OWN_TOKEN:
                expected = (401, 404)
            elif name in INVALID:
                expected = (401,)
            elif name == "nobody":
                expected = (404,) if route.name in ANONYMOUS else (401,)
            elif name in (need, "admin"):
                expected = (200, 202, 204, 400, 404, 409)
            else:
                expected = (403,)
            if answer.status_code not in expected:
                wrong.append((route.name, name, answer.status_code, answer.text[:80]))
    assert wrong == []
    assert tried == len(NEEDS) * (1 + len(INVALID) + len(ALL_SCOPES))


def test_a_read_only_key_does_not_approve_a_held_message(keys: Keys, client: httpx.Client) -> None:
    with keys.server.client(keys.secrets["admin"]) as admin:
        made = SampleRecords(keys.server, admin).make_approvals()
        path = f"/relay/v1/approvals/{made['id']}"
        for name in (READ, "inbox", "inbox:all"):
            answer = client.post(f"{path}/resolve", json={"action": "APPROVED"}, headers=keys.headers(name))
            assert (answer.status_code, answer.json()["error"]) == (403, "not_permitted"), name
        assert admin.get(path).json()["status"] == "PENDING"
        answer = client.post(f"{path}/resolve", json={"action": "REJECTED"}, headers=keys.headers(WRITE))
        assert answer.status_code == 200, answer.text


def test_an_inbox_key_does_not_write_a_policy(keys: Keys, client: httpx.Client) -> None:
    draft = {**POLICY, "name": "made by an inbox key"}
    for name in ("inbox", "inbox:all", READ):
        answer = client.post("/relay/v1/policies", json=draft, headers=keys.headers(name))
        assert (answer.status_code, answer.json()["error"]) == (403, "not_permitted"), name
        assert "cases:write" in answer.json()["message"]
    listed = client.get("/relay/v1/policies", headers=keys.headers("admin"))
    assert "made by an inbox key" not in listed.text


@pytest.mark.parametrize(
    "path", ["", "/message:send", "/message:stream", "/v1/message:send", "/tasks/t:cancel"]
)
def test_a_read_only_key_does_not_call_an_agent(
    path: str, keys: Keys, client: httpx.Client, agent: RawAgent
) -> None:
    before = len(agent.requests)
    for name in (READ, "inbox", "inbox:all"):
        headers = {**keys.headers(name), "A2A-Version": "1.0"}
        answer = client.post(f"/relay/v1/agents/ours{path}", json=CALL, headers=headers)
        assert answer.status_code == 403, (name, answer.text)
    assert len(agent.requests) == before


def test_a_read_only_key_does_not_call_an_agent_by_grpc(keys: Keys, agent: RawAgent) -> None:
    relay = keys.server.parts.relay
    assert relay is not None
    assert relay.grpc is not None
    before = len(agent.requests)
    with grpc.insecure_channel(relay.grpc.address) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        for name in (READ, "inbox", "inbox:all"):
            metadata = [("authorization", f"Bearer {keys.secrets[name]}")]
            with pytest.raises(grpc.RpcError) as refused:
                stub.SendMessage(a2a_pb2.SendMessageRequest(tenant="ours"), metadata=metadata, timeout=60)
            assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED, name
    assert len(agent.requests) == before


def test_a_route_without_a_declared_scope_is_not_served() -> None:
    class Forgotten(HttpApi):
        @RouteGroup(tag="Forgotten").get("/v1/forgotten", "forget")
        async def forget(self, request: ApiRequest) -> None:
            """Answer anyone with any key."""

    with pytest.raises(SettingsError, match="GET /v1/forgotten takes an API key and declares no scope"):
        check_declared_access(Forgotten().routes())


def test_the_mcp_route_takes_no_api_key() -> None:
    check_declared_access([MCP_ROUTE])
    assert MCP_ROUTE.credential == "none"


def test_an_embedding_service_limits_its_principals_by_scope_too() -> None:
    assert Principal(name="acme").scopes == {READ, WRITE}
