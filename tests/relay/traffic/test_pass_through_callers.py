"""Who may call, what travels with a call and what does not, and walls between callers of one agent."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SECRET, SdkAgent
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

V1 = {"A2A-Version": "1.0"}
PATHS = ["", "/message:send", "/v1/message:send", "/.well-known/agent-card.json", "/tasks/x", "/nothing"]


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERRANDS_CREDENTIAL", SECRET)
        known = AgentSettings(
            url=agent.url,
            credentials={"Authorization": "ERRANDS_CREDENTIAL"},
            forward_headers=("X-Region",),
            input_required="pass",
        )
        relay = RelaySettings(
            agents={"errands": known, "private": known},
            callers={
                "acme": CallerSettings(agents=("errands",)),
                "other": CallerSettings(agents=("errands", "private"), kind="user"),
            },
            early_return="1s",
        )
        with running(tmp_path_factory.mktemp("relay"), relay=relay) as found:
            yield found


def open_client(server: RunningServer, key: str) -> httpx.Client:
    url = f"{server.url}/relay/v1/agents/errands"
    headers = {"Authorization": f"Bearer {key}", **V1}
    return httpx.Client(base_url=url, headers=headers, verify=False, timeout=60)


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server, server.api_key) as found:
        yield found


@pytest.fixture(scope="module")
def other_client(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server, server.create_key("other")) as found:
        yield found


def build_rpc_call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "one", "method": method, "params": params}


def build_message(text: str, **fields: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **fields}


@pytest.mark.parametrize("path", PATHS)
def test_nobody_calls_without_a_key(server: RunningServer, agent: SdkAgent, path: str) -> None:
    before = len(agent.seen)
    url = f"{server.url}/relay/v1/agents/errands{path}"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}):
        response = httpx.post(url, json={}, headers=headers, verify=False, timeout=PATIENCE_S)
        assert (response.status_code, response.json()["error"]) == (401, "invalid_token")
    assert len(agent.seen) == before


@pytest.mark.parametrize("path", PATHS)
def test_unknown_caller_agent_and_subscription_look_the_same(
    server: RunningServer, acme: httpx.Client, path: str
) -> None:
    stranger = {"Authorization": f"Bearer {server.create_key('stranger')}"}
    answers = [
        acme.post(f"{server.url}/relay/v1/agents/errands{path}", json={}, headers=stranger),
        acme.post(f"{server.url}/relay/v1/agents/nobody{path}", json={}),
        acme.post(f"{server.url}/relay/v1/agents/private{path}", json={}),
    ]
    assert {(one.status_code, one.text) for one in answers} == {
        (404, '{"error":"not_found","message":"Agent not found."}')
    }


def test_credentials_are_not_forwarded_in_either_direction(
    server: RunningServer, agent: SdkAgent, acme: httpx.Client
) -> None:
    private = {
        "Cookie": "session=1",
        "X-Api-Key": "k",
        "Proxy-Authorization": "Basic x",
        "Forwarded": "for=me",
    }
    passed = {"X-Region": "north", "A2A-Extensions": "https://e.example/x", "traceparent": "00-1-2-00"}
    response = acme.post(
        "", json=build_rpc_call("SendMessage", message=build_message("echo")), headers=private | passed
    )
    seen = agent.seen[-1]
    assert seen["authorization"] == SECRET
    assert server.api_key not in repr(seen)
    assert not {name.lower() for name in private} & set(seen)
    assert {name: seen[name.lower()] for name in passed} == passed
    assert SECRET not in response.text + repr(response.headers)
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("given", "kept"), [("order-7", True), ("", False), ("a b", False), ("x" * 200, False), ("é", False)]
)
def test_valid_correlation_id_is_kept_and_others_are_replaced(
    agent: SdkAgent, acme: httpx.Client, given: str, kept: bool
) -> None:
    headers = {b"X-Correlation-Id": given.encode()}
    response = acme.post(
        "", json=build_rpc_call("SendMessage", message=build_message("echo")), headers=headers
    )
    found = response.headers["x-correlation-id"]
    assert agent.seen[-1]["x-correlation-id"] == found
    assert (found == given) is kept
    assert kept or re.fullmatch(r"[0-9a-f]{32}", found)


def send(client: httpx.Client, text: str, **fields: Any) -> dict[str, Any]:
    found = client.post("", json=build_rpc_call("SendMessage", message=build_message(text, **fields))).json()
    return found["result"]["task"] if "result" in found else found["error"]


def test_callers_cannot_reach_each_others_tasks(acme: httpx.Client, other_client: httpx.Client) -> None:
    task = send(acme, "ask")
    own = {"id": task["id"], "code": -32001}
    for method in (
        "GetTask",
        "CancelTask",
        "SubscribeToTask",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
    ):
        told = other_client.post("", json=build_rpc_call(method, id=task["id"])).text.removeprefix("data: ")
        assert json.loads(told)["error"]["code"] == own["code"]
    for spelled in ({"taskId": task["id"]}, {"task_id": task["id"]}, {"referenceTaskIds": [task["id"]]}):
        assert send(other_client, "echo", **spelled)["code"] == -32001
    for context in ({"contextId": task["contextId"]}, {"context_id": task["contextId"]}):
        assert send(other_client, "echo", **context)["code"] == -32602
    for path in ("", ":subscribe", "/pushNotificationConfigs", "/pushNotificationConfigs/mine"):
        assert other_client.get(f"/tasks/{task['id']}{path}").status_code == 404
    assert acme.get(f"/tasks/{task['id']}").json()["id"] == task["id"]


def test_a_list_shows_each_caller_its_own(acme: httpx.Client, other_client: httpx.Client) -> None:
    mine, theirs = send(acme, "ask")["id"], send(other_client, "ask")["id"]
    for client, own, foreign in ((acme, mine, theirs), (other_client, theirs, mine)):
        over_rpc = client.post("", json=build_rpc_call("ListTasks")).json()["result"]
        over_http = client.get("/tasks").json()
        for listed in (over_rpc, over_http):
            ids = [task["id"] for task in listed["tasks"]]
            assert own in ids
            assert foreign not in ids
            assert listed["totalSize"] == len(ids)


def test_card_names_the_relays_address(server: RunningServer, acme: httpx.Client, agent: SdkAgent) -> None:
    here = f"{server.url}/relay/v1/agents/errands"
    for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
        response = acme.get(path)
        card = response.json()
        assert agent.url not in response.text
        assert {one["url"] for one in card["supportedInterfaces"]} == {here}
        assert {one["protocolBinding"] for one in card["supportedInterfaces"]} == {"JSONRPC", "HTTP+JSON"}
        assert {one["url"] for one in card.get("additionalInterfaces", [])} | {card["url"]} == {here}
        assert "signatures" not in card
        assert list(card["securitySchemes"]) == ["placet"]
        assert response.headers["cache-control"] == "private, max-age=60"
        again = acme.get(path, headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (
            304,
            b"",
            response.headers["etag"],
        )
    card = acme.get("/.well-known/agent-card.json").json()
    direct = httpx.get(f"{agent.url}/.well-known/agent-card.json", verify=False, timeout=PATIENCE_S).json()
    assert (card["name"], card["capabilities"]) == (direct["name"], direct["capabilities"])
    assert acme.post("/.well-known/agent-card.json").status_code == 405


def test_unknown_fields_are_forwarded_in_both_directions(acme: httpx.Client) -> None:
    task = send(acme, "echo", futureField={"a": [1, None, 2.5]}, metadata={"k": {"deep": True}})
    assert task["history"][0]["metadata"] == {"k": {"deep": True}}


DIALECTS = [
    ("POST", "", build_rpc_call("GetTask"), {"A2A-Version": "1.0"}, "TASK_STATE_WORKING"),
    ("POST", "", build_rpc_call("tasks/get"), {"A2A-Version": "0.3"}, "working"),
    ("GET", "/tasks/{id}", None, {"A2A-Version": "1.0"}, "TASK_STATE_WORKING"),
    ("GET", "/v1/tasks/{id}", None, {"A2A-Version": "0.3"}, "TASK_STATE_WORKING"),
]


def get_task(client: httpx.Client, dialect: Any, task_id: str) -> dict[str, Any]:
    method, path, body, headers, _ = dialect
    if body is not None:
        body = body | {"params": {"id": task_id}}
    found = client.request(method, path.format(id=task_id), json=body, headers=headers).json()
    return found.get("result", found)


@pytest.mark.parametrize("what", ["late task", "late chat"])
def test_a_late_answer_is_there_at_a_later_get_in_every_dialect(
    acme: httpx.Client, other_client: httpx.Client, agent: SdkAgent, what: str
) -> None:
    agent.executor.go_on.clear()
    early = send(acme, what)
    assert early["metadata"] == {"relay_reason": "TIMEOUT"}
    assert early["status"]["state"] == "TASK_STATE_WORKING"
    for dialect in DIALECTS:
        waiting = get_task(acme, dialect, early["id"])
        assert (waiting["id"], waiting["contextId"]) == (early["id"], early["contextId"])
        assert (waiting["status"]["state"], waiting["metadata"]) == (dialect[4], {"relay_reason": "TIMEOUT"})
    assert acme.post("", json=build_rpc_call("CancelTask", id=early["id"])).json()["error"]["code"] == -32002
    assert send(acme, "echo", taskId=early["id"])["code"] == -32004
    assert other_client.get(f"/tasks/{early['id']}").status_code == 404
    with acme.stream("POST", "", json=build_rpc_call("SubscribeToTask", id=early["id"])) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        assert "TASK_STATE_WORKING" in next(lines)
        agent.executor.go_on.set()
        last = list(lines)
    if what == "late chat":
        assert "at last" in last[-1]

    def ended() -> Any:
        found = get_task(acme, DIALECTS[0], early["id"])
        return found if found["status"]["state"] == "TASK_STATE_COMPLETED" else None

    assert "relay_reason" not in repr(eventually(ended))
    for dialect in DIALECTS:
        found = get_task(acme, dialect, early["id"])
        assert found["id"] == early["id"]
        assert found["status"]["state"].lower().endswith("completed")
        assert ("at last" if what == "late chat" else "late task 2") in repr(found)
    assert early["id"] in [task["id"] for task in acme.get("/tasks").json()["tasks"]] or what == "late chat"


def test_open_stream_does_not_delay_shutdown(tmp_path: Any, agent: SdkAgent) -> None:
    agent.executor.go_on.clear()
    relay = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={"acme": CallerSettings(agents=("errands",))},
    )
    with running(tmp_path, relay=relay) as server, open_client(server, server.api_key) as client:
        sent = build_rpc_call("SendStreamingMessage", message=build_message("late task"))
        with client.stream("POST", "", json=sent) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            server.run(server.parts.app.streams.close())
            assert "error" not in "".join(lines)
    agent.executor.go_on.set()


@pytest.mark.parametrize(
    ("method", "path", "body", "version"),
    [
        ("POST", "", build_rpc_call("GetExtendedAgentCard"), "1.0"),
        ("POST", "", build_rpc_call("agent/getAuthenticatedExtendedCard"), "0.3"),
        ("GET", "/extendedAgentCard", None, "1.0"),
        ("GET", "/v1/card", None, "0.3"),
    ],
)
def test_extended_card_names_the_relays_address(
    server: RunningServer,
    acme: httpx.Client,
    agent: SdkAgent,
    method: str,
    path: str,
    body: Any,
    version: str,
) -> None:
    response = acme.request(method, path, json=body, headers={"A2A-Version": version})
    found = response.json()
    card = found.get("result", found)
    assert [skill["id"] for skill in card["skills"]] == ["errand", "secret"]
    assert f"{server.url}/relay/v1/agents/errands" in response.text
    assert agent.url not in response.text
    assert "signatures" not in card
