"""A webhook refuses foreign requests with a clear error, and no caller learns of another caller's tasks."""

import json
import socket
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from placet.errors import RateLimited
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from placet.relay.transports.webhooks import MAX_CONCURRENT, MAX_PER_MINUTE, NotificationRateLimit
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.push.pusher import (
    V1,
    Pusher,
    build_status_update,
    build_task_event,
    send_with_config,
    wait_for_deliveries,
)
from tests.relay.push.receiver import Receiver
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

LARGEST = 64 * 1024
numbers = count(1)


@pytest.fixture(scope="module")
def server(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    relay = RelaySettings(
        agents={"raw": AgentSettings(url=raw_agent.url)},
        callers={"acme": CallerSettings(agents=("raw",)), "other": CallerSettings(agents=("raw",))},
        max_message_bytes=LARGEST,
    )
    with running(tmp_path_factory.mktemp("push"), relay=relay) as found:
        yield found


def open_client(server: RunningServer, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}", **V1}
    return httpx.Client(
        base_url=f"{server.url}/relay/v1/agents/raw", headers=headers, verify=False, timeout=60
    )


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server, server.api_key) as found:
        yield found


@pytest.fixture(scope="module")
def other_client(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server, server.create_key("other")) as found:
        yield found


class NotifiedTask:
    """One task of acme's, the webhook its agent was given, and where acme is told."""

    def __init__(self, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver) -> None:
        self.task_id = f"t-{next(numbers)}"
        self.path = f"/{self.task_id}"
        self.receiver = receiver
        self.pusher = send_with_config(
            acme, raw_agent, self.task_id, {"url": receiver.url + self.path, "token": "acme's own"}
        )

    def states(self, server: RunningServer) -> list[str]:
        wait_for_deliveries(server)
        return self.receiver.states(self.path)


@pytest.fixture
def notified_task(acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver) -> NotifiedTask:
    return NotifiedTask(acme, raw_agent, receiver)


DOCUMENTS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "1.0": ("", V1, {"method": "CreateTaskPushNotificationConfig", "params": {"taskId": "T", "id": "i"}}),
    "0.3": (
        "",
        {"A2A-Version": "0.3"},
        {
            "method": "tasks/pushNotificationConfig/set",
            "params": {"taskId": "T", "pushNotificationConfig": {"id": "i"}},
        },
    ),
    "1.0 over HTTP": ("/tasks/T/pushNotificationConfigs", V1, {"id": "i"}),
    "0.3 over HTTP": (
        "/v1/tasks/T/pushNotificationConfigs",
        {"A2A-Version": "0.3"},
        {"configId": "i", "config": {"name": "tasks/T/x", "pushNotificationConfig": {"id": "i"}}},
    ),
}
OWN = {
    "url": "RECEIVER/secret-path",
    "token": "acme's own",
    "authentication": {"scheme": "Bearer", "schemes": ["Bearer"], "credentials": "acme's-credential"},
    "unknown": "kept",
}


def find_innermost_config(document: dict[str, Any]) -> dict[str, Any]:
    """The object that the config's own fields belong into."""
    for name in ("params", "config", "pushNotificationConfig"):
        if name in document:
            return find_innermost_config(document[name])
    return document


@pytest.mark.parametrize("dialect", DOCUMENTS)
def test_an_agent_learns_nothing_of_a_callers_address(
    raw_agent: RawAgent, acme: httpx.Client, receiver: Receiver, notified_task: NotifiedTask, dialect: str
) -> None:
    plain: str = json.dumps(DOCUMENTS[dialect])
    path, headers, document = json.loads(
        plain.replace('"T"', f'"{notified_task.task_id}"').replace("/T/", f"/{notified_task.task_id}/")
    )
    own: dict[str, Any] = OWN | {"url": f"{receiver.url}/secret-path"}
    find_innermost_config(document).update(own)
    rpc = "method" in document
    call = {"jsonrpc": "2.0", "id": 1, **document} if rpc else document
    raw_agent.behave = answer_with(200, b'{"jsonrpc": "2.0", "id": 1, "result": null}' if rpc else b"{}")
    acme.post(path, json=call, headers=headers)
    head, body = raw_agent.requests[-1]
    got = find_innermost_config(json.loads(body))
    assert "/secret-path" not in head + body.decode()
    assert "acme's" not in head + body.decode()
    assert (got["id"], got["unknown"]) == ("i", "kept")
    assert got["url"].endswith("/notifications")
    assert got["authentication"]["credentials"] == got["token"]
    # What the agent says now, with its own idea of the config, reads back as the caller's own.
    said = json.loads(json.dumps(document).replace(own["url"], got["url"]))
    result = said["params"] if rpc else said
    raw_agent.behave = answer_with(
        200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": result} if rpc else result).encode()
    )
    answer = acme.post(path, json=call, headers=headers).json()
    assert {name: find_innermost_config(answer.get("result", answer))[name] for name in own} == own


def test_a_webhook_opens_to_its_own_token_only(
    server: RunningServer,
    acme: httpx.Client,
    raw_agent: RawAgent,
    receiver: Receiver,
    notified_task: NotifiedTask,
) -> None:
    elsewhere = NotifiedTask(acme, raw_agent, receiver)
    body = build_status_update(notified_task.task_id, "COMPLETED")
    for token in (
        "wrong",
        "acme's own",
        notified_task.pusher.token[:-1],
        elsewhere.pusher.token,
        server.api_key,
    ):
        response = notified_task.pusher.push(body, token=token)
        assert (response.status_code, response.json()["error"]) == (401, "invalid_token")
    bare = httpx.post(notified_task.pusher.url, json=body, verify=False, timeout=PATIENCE_S)
    assert bare.status_code == 401
    assert notified_task.states(server) == []
    bearer = {"Authorization": f"Bearer {notified_task.pusher.token}"}
    assert (
        httpx.post(
            notified_task.pusher.url, json=body, headers=bearer, verify=False, timeout=PATIENCE_S
        ).status_code
        == 204
    )
    assert notified_task.states(server) == ["TASK_STATE_COMPLETED"]


@pytest.mark.parametrize("change", ["A", "x" * 3000, "../../agents/raw", "%00", "é"])
def test_unknown_webhook_is_not_found(notified_task: NotifiedTask, change: str) -> None:
    base, _, tail = notified_task.pusher.url.rpartition("/notifications")
    for url in (
        f"{base}{change}/notifications",
        f"{base}{tail}/other",
        f"{base.rpartition('/')[0]}/notifications",
    ):
        forged = Pusher({"url": url, "token": notified_task.pusher.token})
        assert forged.push(build_status_update(notified_task.task_id)).status_code == 404


def test_only_posts_are_notifications(notified_task: NotifiedTask) -> None:
    headers = {"X-A2A-Notification-Token": notified_task.pusher.token}
    assert (
        httpx.get(notified_task.pusher.url, headers=headers, verify=False, timeout=PATIENCE_S).status_code
        == 405
    )


MALFORMED: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", 400),
    "no text": (b"\xff\xfe", 400),
    "a list": ([], 400),
    "a word": (b'"task"', 400),
    "nothing": ({}, 400),
    "an empty body": (b"", 400),
    "no task's name": ({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}, 400),
    "a task's name that is none": ({"statusUpdate": {"taskId": ["T"], "status": {}}}, 400),
    "two names": ({"statusUpdate": {"taskId": "T", "task_id": "U", "status": {}}}, 400),
    "a name without end": ({"statusUpdate": {"taskId": "T" * 600, "status": {}}}, 400),
    "two things at once": (build_task_event("T") | build_status_update("T"), 400),
    "an error": (build_task_event("T") | {"error": {"code": 1}}, 400),
    "too deep": (b'{"task":' + b"[" * 20_000 + b"]" * 20_000 + b"}", 400),
    "too large": (build_task_event("T", text="x" * LARGEST), 413),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_invalid_notification_is_refused(
    server: RunningServer, notified_task: NotifiedTask, kind: str
) -> None:
    body, status = MALFORMED[kind]
    response = notified_task.pusher.push(body)
    assert response.status_code == status, response.text
    assert notified_task.states(server) == []


def test_wrong_content_type_is_refused(server: RunningServer, notified_task: NotifiedTask) -> None:
    response = notified_task.pusher.push(
        build_status_update(notified_task.task_id), **{"Content-Type": "text/plain"}
    )
    assert response.status_code == 400
    assert notified_task.states(server) == []


def test_a_notification_is_about_the_webhooks_own_task(
    server: RunningServer,
    acme: httpx.Client,
    other_client: httpx.Client,
    raw_agent: RawAgent,
    receiver: Receiver,
    notified_task: NotifiedTask,
) -> None:
    foreign, own = NotifiedTask(other_client, raw_agent, receiver), NotifiedTask(acme, raw_agent, receiver)
    for task_id in (foreign.task_id, own.task_id, "nobody's"):
        for body in (build_status_update(task_id, "COMPLETED"), build_task_event(task_id, "COMPLETED")):
            response = notified_task.pusher.push(body)
            assert (response.status_code, response.json()["error"]) == (404, "not_found")
    assert [one.states(server) for one in (notified_task, foreign, own)] == [[], [], []]


def test_a_webhook_without_a_task_yet_cannot_take_anothers(
    server: RunningServer,
    acme: httpx.Client,
    other_client: httpx.Client,
    raw_agent: RawAgent,
    receiver: Receiver,
) -> None:
    foreign = NotifiedTask(other_client, raw_agent, receiver)
    raw_agent.behave = answer_with(
        200, b'{"jsonrpc": "2.0", "id": 1, "result": {"message": {"messageId": "a"}}}'
    )
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    wanted = {"taskPushNotificationConfig": {"url": f"{receiver.url}/unbound"}}
    params = {"message": message, "configuration": wanted}
    acme.post("", json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
    sent = json.loads(raw_agent.requests[-1][1])["params"]["configuration"]["taskPushNotificationConfig"]
    assert Pusher(sent).push(build_status_update(foreign.task_id)).status_code == 404
    assert Pusher(sent).push(build_status_update("a new one")).status_code == 204
    assert Pusher(sent).push(build_status_update("another")).status_code == 404
    wait_for_deliveries(server)
    assert len(receiver.at("/unbound")) == 1
    assert acme.get("/tasks/a new one").status_code != 404
    assert other_client.get("/tasks/a new one").status_code == 404


def test_repeated_notification_is_delivered_once(server: RunningServer, notified_task: NotifiedTask) -> None:
    working, done = (
        build_status_update(notified_task.task_id, message=None),
        build_status_update(notified_task.task_id, "COMPLETED"),
    )
    for body in (working, working, done, done, working, build_status_update(notified_task.task_id, "FAILED")):
        assert notified_task.pusher.push(body).status_code == 204
    assert notified_task.states(server) == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


def test_identical_artifact_chunks_are_all_delivered(
    server: RunningServer, notified_task: NotifiedTask
) -> None:
    piece = {"artifactId": "a", "parts": [{"text": "x"}]}
    event = {"artifactUpdate": {"taskId": notified_task.task_id, "append": True, "artifact": piece}}
    for _ in range(2):
        assert notified_task.pusher.push(event).status_code == 204
    wait_for_deliveries(server)
    assert [one.body for one in notified_task.receiver.at(notified_task.path)] == [event, event]


@pytest.mark.parametrize(
    "config",
    [
        {"token": "a\r\nX-Evil: 1"},
        {"token": "ünicode"},
        {"token": 7},
        {"token": "x" * 9000},
        {"authentication": {"scheme": "Bear er", "credentials": "c"}},
        {"authentication": {"scheme": "Bearer", "credentials": "c\nd"}},
        {"authentication": {"schemes": "Bearer", "credentials": "c"}},
        {"authentication": "Bearer c"},
        {"url": ["http://127.0.0.1/"]},
        {"url": "http://127.0.0.1/" + "x" * 3000},
        {"config": {"url": "http://10.0.0.1/"}},
    ],
    ids=str,
)
def test_invalid_config_is_refused_before_the_agent_is_called(
    raw_agent: RawAgent,
    acme: httpx.Client,
    receiver: Receiver,
    notified_task: NotifiedTask,
    config: dict[str, Any],
) -> None:
    before = len(raw_agent.requests)
    params = {"taskId": notified_task.task_id, "url": f"{receiver.url}/never", **config}
    call = {"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": params}
    assert acme.post("", json=call).json()["error"]["code"] == -32602
    assert len(raw_agent.requests) == before


def test_another_caller_neither_reads_nor_deletes_a_config(
    raw_agent: RawAgent, other_client: httpx.Client, notified_task: NotifiedTask
) -> None:
    before = len(raw_agent.requests)
    path = f"/tasks/{notified_task.task_id}/pushNotificationConfigs"
    answers = [
        other_client.get(path),
        other_client.get(f"{path}/x"),
        other_client.delete(f"{path}/x"),
        other_client.post(path, json=OWN),
    ]
    assert {one.json()["error"]["details"][0]["reason"] for one in answers} <= {
        "TASK_NOT_FOUND",
        "INVALID_PARAMS",
    }
    assert len(raw_agent.requests) == before


def test_configs_that_were_not_made_here_are_not_shown(
    raw_agent: RawAgent, acme: httpx.Client, notified_task: NotifiedTask
) -> None:
    foreign = {"id": "x", "url": "https://elsewhere.example/hook", "token": "theirs"}
    path = f"/tasks/{notified_task.task_id}/pushNotificationConfigs"
    raw_agent.behave = answer_with(
        200, json.dumps({"configs": [foreign, notified_task.pusher.config]}).encode()
    )
    [shown] = acme.get(path).json()["configs"]
    assert (shown["url"], shown["token"]) == (notified_task.receiver.url + notified_task.path, "acme's own")
    raw_agent.behave = answer_with(200, json.dumps(foreign).encode())
    assert acme.get(f"{path}/x").json()["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"


def test_an_agents_own_refusal_is_passed_on_and_its_webhook_closed(
    raw_agent: RawAgent, acme: httpx.Client, receiver: Receiver, notified_task: NotifiedTask
) -> None:
    refusal = {"code": -32003, "message": "Push Notification is not supported"}
    raw_agent.behave = answer_with(200, json.dumps({"jsonrpc": "2.0", "id": 1, "error": refusal}).encode())
    params = {"taskId": notified_task.task_id, "url": f"{receiver.url}/never"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig", "params": params}
    assert acme.post("", json=call).json()["error"] == refusal
    sent = Pusher(json.loads(raw_agent.requests[-1][1])["params"])
    assert sent.push(build_status_update(notified_task.task_id)).status_code == 404


def test_slow_push_delays_no_other_push(server: RunningServer, notified_task: NotifiedTask) -> None:
    host, port = notified_task.pusher.url.split("/")[2].split(":")
    head = (
        f"POST {notified_task.pusher.url.split(host + ':' + port)[1]} HTTP/1.1\r\nHost: {host}\r\n"
        f"X-A2A-Notification-Token: {notified_task.pusher.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{"
    )
    slow = [socket.create_connection((host, int(port)), 10) for _ in range(MAX_CONCURRENT)]
    try:
        for one in slow:
            one.sendall(head.encode())
        eventually(
            lambda: notified_task.pusher.push(build_status_update(notified_task.task_id)).status_code == 429
        )
        assert httpx.get(f"{server.url}/healthz", verify=False, timeout=PATIENCE_S).status_code == 200
    finally:
        for one in slow:
            one.close()
    eventually(
        lambda: (
            notified_task.pusher.push(build_status_update(notified_task.task_id, "COMPLETED")).status_code
            == 204
        )
    )


def test_webhook_has_a_rate_limit() -> None:
    now = [0.0]
    pace = NotificationRateLimit(lambda: now[0])
    for _ in range(MAX_PER_MINUTE):
        pace.count("one")
    pace.count("two")
    with pytest.raises(RateLimited):
        pace.count("one")
    now[0] = 60.0
    pace.count("one")
