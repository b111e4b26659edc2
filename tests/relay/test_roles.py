"""Every address of the relay, tried by everybody there is: who is let in, and who learns nothing.

Addresses are taken from the relay itself: a new one is tried without a line here, and fails until somebody
says how to make what it is about.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import msgspec
import pytest
from a2a.types import a2a_pb2
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from placet.http.route import Route
from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GroupSettings,
    GrpcSettings,
    RelaySettings,
)
from placet.relay.tenants import PERMISSIONS
from placet.relay.transports.route_table import API_ROUTES
from tests.relay.a2a.raw_agent import RawAgent, answer_with, run_raw_agent
from tests.relay.sample_records import SampleRecords, build_message_call
from tests.server.running import RunningServer, running

ALL = tuple(sorted(PERMISSIONS))
ROUTES = API_ROUTES
HOME, ELSEWHERE = "default", "elsewhere"
VARIABLE = re.compile(r"{\w+}")
CALL = build_message_call("hello")
OUTSIDERS = ("stranger", "member", "boss", "admin", "caller of nobody", "their caller", "their boss", *ALL)
"""Everyone but the caller of the agent, and clients without a key."""
RPCS = list(a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods)
RELAYED = [
    ("GET", "/.well-known/agent-card.json"),
    ("GET", "/.well-known/agent.json"),
    ("POST", ""),
    ("POST", "/message:send"),
    ("POST", "/message:stream"),
    ("GET", "/tasks/t"),
    ("GET", "/tasks"),
    ("POST", "/tasks/t:cancel"),
    ("POST", "/tasks/t:subscribe"),
    ("POST", "/v1/message:send"),
    ("GET", "/v1/tasks/t"),
    ("GET", "/extendedAgentCard"),
    ("GET", "/whatever/this/is"),
]


def build_group(tenant: str, member: str, permissions: tuple[str, ...]) -> GroupSettings:
    return GroupSettings(members=(member,), permissions=permissions, tenant=tenant)


def name_minimal_member(route: Route) -> str:
    """The name of a member who may ask this, and nothing that needs more."""
    return f"just {' and '.join(route.permissions)}"


def build_settings(agent: RawAgent, other: RawAgent) -> RelaySettings:
    single = {f"only-{place}": build_group(HOME, one, (one,)) for place, one in enumerate(ALL)}
    lacking = {
        f"not-{place}": build_group(HOME, f"all but {one}", tuple(p for p in ALL if p != one))
        for place, one in enumerate(ALL)
    }
    enough = {
        f"just-{route.name}": build_group(HOME, name_minimal_member(route), route.permissions)
        for route in ROUTES
    }
    return RelaySettings(
        enabled=True,
        agents={
            "ours": AgentSettings(url=agent.url),
            "theirs": AgentSettings(url=other.url, tenant=ELSEWHERE),
        },
        callers={
            "caller": CallerSettings(agents=("ours",)),
            "caller of nobody": CallerSettings(agents=()),
            "their caller": CallerSettings(agents=("theirs",), tenant=ELSEWHERE),
        },
        groups={
            **single,
            **lacking,
            **enough,
            "none": build_group(HOME, "member", ()),
            "all": build_group(HOME, "boss", ALL),
            "theirs": build_group(ELSEWHERE, "their boss", ALL),
        },
        grpc=GrpcSettings(listen="127.0.0.1:0"),
    )


class ClientsByRole:
    """A client for each kind of key, by its name; `nobody` has none."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self.keys: dict[str, str] = {}
        self._clients: dict[str, httpx.Client] = {"nobody": stack.enter_context(server.client())}
        self._clients["admin"] = self._client("admin", "admin")

    def __getitem__(self, name: str) -> httpx.Client:
        if name not in self._clients:
            self._clients[name] = self._client(name)
        return self._clients[name]

    def key(self, name: str) -> str:
        assert self[name] is not None
        return self.keys[name]

    def _client(self, name: str, *scopes: str) -> httpx.Client:
        self.keys[name] = self.server.create_key(name, *scopes)
        return self._stack.enter_context(self.server.client(self.keys[name]))


@pytest.fixture(scope="module")
def agents() -> Iterator[tuple[RawAgent, RawAgent]]:
    with run_raw_agent() as ours, run_raw_agent() as theirs:
        for one in (ours, theirs):
            one.behave = answer_with(200, b'{"jsonrpc":"2.0","id":1,"result":{}}')
        yield ours, theirs


@pytest.fixture(scope="module")
def clients(
    agents: tuple[RawAgent, RawAgent], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientsByRole]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("roles")
        server = stack.enter_context(running(folder, relay=build_settings(*agents)))
        yield ClientsByRole(server, stack)


@pytest.fixture(scope="module")
def sample_records(clients: ClientsByRole) -> SampleRecords:
    return SampleRecords(clients.server, clients["admin"])


def ask(client: httpx.Client, route: Route, path: str | None = None, **query: str) -> httpx.Response:
    body: Any = {} if route.body is not None else None
    address = path or VARIABLE.sub("nothing", route.path)
    return client.request(route.method, address, json=body, params=query)


def read_status_and_code(response: httpx.Response) -> tuple[int, str | None]:
    try:
        found = response.json()
    except ValueError:
        return response.status_code, None
    return response.status_code, found.get("error") if isinstance(found, dict) else None


def is_authorized(response: httpx.Response) -> bool:
    """What is answered once nobody asks any more who it is: anything but that, and never a failure."""
    assert response.status_code < 500, response.text
    return response.status_code not in (401, 403)


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: f"{one.method} {one.path}")
class TestApi:
    """Each address of the API."""

    def test_route_needs_a_key_and_a_tenant(self, route: Route, clients: ClientsByRole) -> None:
        assert read_status_and_code(ask(clients["nobody"], route)) == (401, "invalid_token")
        with clients.server.client("placet_made_up") as forger:
            assert read_status_and_code(ask(forger, route)) == (401, "invalid_token")
        for name in ("stranger", "member", "caller", "caller of nobody"):
            assert read_status_and_code(ask(clients[name], route)) == (403, "not_permitted"), name
            assert read_status_and_code(ask(clients[name], route, tenantId=HOME)) == (403, "not_permitted"), (
                name
            )

    def test_route_needs_exactly_its_permissions(self, route: Route, clients: ClientsByRole) -> None:
        needed = set(route.permissions)
        alone = needed if len(needed) == 1 else set()
        assert {one for one in ALL if is_authorized(ask(clients[one], route))} == alone
        for one in needed:
            assert read_status_and_code(ask(clients[f"all but {one}"], route)) == (403, "not_permitted"), one
        assert is_authorized(ask(clients[name_minimal_member(route)], route))
        assert is_authorized(ask(clients["boss"], route))

    def test_only_an_administrator_acts_in_another_tenant(self, route: Route, clients: ClientsByRole) -> None:
        assert read_status_and_code(ask(clients["their boss"], route, tenantId=HOME)) == (
            403,
            "not_permitted",
        )
        assert read_status_and_code(ask(clients["boss"], route, tenantId=ELSEWHERE)) == (403, "not_permitted")
        assert is_authorized(ask(clients["their boss"], route, tenantId=ELSEWHERE))
        assert is_authorized(ask(clients["admin"], route))
        assert is_authorized(ask(clients["admin"], route, tenantId=ELSEWHERE))

    def test_records_are_not_found_by_other_tenants(
        self, route: Route, clients: ClientsByRole, sample_records: SampleRecords
    ) -> None:
        made = sample_records.address(route)
        if made is None:
            return
        path, trace = made
        theirs = ask(clients["their boss"], route, path)
        assert theirs.status_code in (400, 404), theirs.text
        if trace is not None:
            assert trace not in theirs.text
        ours = ask(clients["boss"], route, path)
        assert is_authorized(ours)
        assert ours.status_code != 404, "the thing that was made is not what this address is about"


def test_lists_show_each_tenant_its_own(clients: ClientsByRole, sample_records: SampleRecords) -> None:
    lists = [route for route in ROUTES if route.method == "GET" and "{" not in route.path]
    assert len(lists) > 5
    traces = sample_records.make_one_of_each()
    seen = ""
    for route in lists:
        assert not [trace for trace in traces if trace in ask(clients["their boss"], route).text], route.path
        query = {"size": "200"} if any(one.name == "size" for one in route.parameters) else {}
        seen += ask(clients["boss"], route, **query).text
    assert not [trace for trace in traces if trace not in seen]


@pytest.mark.parametrize(("method", "path"), RELAYED)
def test_agents_are_called_by_their_subscribers_only(
    method: str, path: str, clients: ClientsByRole, agents: tuple[RawAgent, RawAgent]
) -> None:
    def call(name: str, agent_id: str = "ours") -> httpx.Response:
        body = CALL if method == "POST" else None
        headers = {"A2A-Version": "1.0"}
        return clients[name].request(method, f"/relay/v1/agents/{agent_id}{path}", json=body, headers=headers)

    asked = [len(one.requests) for one in agents]
    assert read_status_and_code(call("nobody")) == (401, "invalid_token")
    outsiders = (
        "stranger",
        "member",
        "boss",
        "admin",
        "caller of nobody",
        "their caller",
        "their boss",
        *ALL,
    )
    for name in outsiders:
        for agent_id in ("ours", "no-such-agent"):
            answer = call(name, agent_id)
            assert read_status_and_code(answer) == (404, "not_found"), name
            assert answer.json() == call("stranger").json()  # the same words, whether it is there or not
    assert read_status_and_code(call("caller", "theirs")) == (404, "not_found")
    assert [len(one.requests) for one in agents] == asked
    for name, agent_id in (("caller", "ours"), ("their caller", "theirs")):
        answer = call(name, agent_id)
        # Now it is A2A that answers, with whatever it thinks of this: the relay has let it in.
        assert read_status_and_code(answer)[1] not in ("invalid_token", "not_permitted"), answer.text
        assert answer.text != call("stranger").text


@pytest.mark.parametrize("rpc", RPCS, ids=lambda one: one.name)
def test_agents_are_called_by_their_subscribers_only_over_grpc_too(
    rpc: Any, clients: ClientsByRole, agents: tuple[RawAgent, RawAgent]
) -> None:
    relay = clients.server.parts.relay
    assert relay is not None
    assert relay.grpc is not None
    path = f"/{rpc.containing_service.full_name}/{rpc.name}"

    def call(channel: grpc.Channel, name: str, agent_id: str = "ours") -> grpc.StatusCode:
        request = GetMessageClass(rpc.input_type)(tenant=agent_id)
        make = channel.unary_stream if rpc.server_streaming else channel.unary_unary
        ask = make(path, request_serializer=lambda one: one.SerializeToString(), response_deserializer=bytes)
        key = [] if name == "nobody" else [("authorization", f"Bearer {clients.key(name)}")]
        try:
            answer = ask(request, metadata=key, timeout=60)
            list(answer) if rpc.server_streaming else answer
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    asked = [len(one.requests) for one in agents]
    with grpc.insecure_channel(relay.grpc.address) as channel:
        assert call(channel, "nobody") == grpc.StatusCode.UNAUTHENTICATED
        for name in OUTSIDERS:
            assert call(channel, name) == call(channel, name, "no-such-agent") == grpc.StatusCode.NOT_FOUND
        assert call(channel, "caller", "theirs") == grpc.StatusCode.NOT_FOUND
        assert [len(one.requests) for one in agents] == asked
        let_in = {call(channel, "caller"), call(channel, "their caller", "theirs")}
    assert not let_in & {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}


def test_every_route_of_the_relay_is_tried_here(clients: ClientsByRole) -> None:
    relay = clients.server.parts.relay
    assert relay is not None
    assert set(relay.asgi_apps) == {"/relay/v1/agents/", "/relay/v1/webhooks/"}


@pytest.mark.parametrize("name", ["nobody", "stranger", "boss", "their boss", "caller", "admin"])
def test_webhook_refuses_requests_without_its_token(name: str, clients: ClientsByRole) -> None:
    for path in ("x/notifications", "x", "", "x/notifications/y"):
        answer = clients[name].post(f"/relay/v1/webhooks/{path}", json={"task": {}})
        assert answer.status_code in (401, 404), answer.text


def test_public_cards_are_those_of_the_default_tenant_and_each_callers_own(
    agents: tuple[RawAgent, RawAgent], tmp_path: Path
) -> None:
    shown = msgspec.structs.replace(build_settings(*agents), public_cards=True, grpc=None)
    with running(tmp_path, relay=shown) as server, ExitStack() as stack:
        everyone = ClientsByRole(server, stack)

        def card(name: str, agent_id: str) -> httpx.Response:
            return everyone[name].get(f"/relay/v1/agents/{agent_id}/.well-known/agent-card.json")

        for name in ("nobody", "stranger", "their boss", "their caller"):
            assert card(name, "ours").status_code == 200, name
        assert card("nobody", "ours").headers["cache-control"].startswith("public")
        assert card("their caller", "theirs").headers["cache-control"].startswith("private")
        for name in ("nobody", "stranger", "caller", "their boss"):
            assert read_status_and_code(card(name, "theirs")) == (404, "not_found"), name
        assert read_status_and_code(everyone["nobody"].post("/relay/v1/agents/ours", json=CALL)) == (
            401,
            "invalid_token",
        )
