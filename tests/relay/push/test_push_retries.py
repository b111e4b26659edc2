"""What becomes of notifications in time: late answers, receivers that fail, restarts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.ports.outbox_store import DeliveryFilter
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.a2a.sdk_agent import SdkAgent
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

V03 = {"A2A-Version": "0.3"}


@pytest.fixture(scope="module")
def relay(raw_agent: RawAgent, agent: SdkAgent) -> RelaySettings:
    return RelaySettings(
        agents={"raw": AgentSettings(url=raw_agent.url), "sdk": AgentSettings(url=agent.url)},
        callers={"acme": CallerSettings(agents=("raw", "sdk"))},
        early_return="0.5s",
    )


@pytest.fixture(scope="module")
def server(relay: RelaySettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("push"), relay=relay) as found:
        yield found


def open_client(server: RunningServer, agent: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{server.url}/relay/v1/agents/{agent}",
        headers={"Authorization": f"Bearer {server.api_key}"},
        verify=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server, "raw") as found:
        found.headers.update(V1)
        yield found


def send_to_sdk_agent(server: RunningServer, text: str, url: str, version: str) -> dict[str, Any]:
    config = {"url": url, "token": "acme's own"}
    if version == "1.0":
        message: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
        call = {"method": "SendMessage", "params": params}
    else:
        part = {"kind": "text", "text": text}
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": [part]}
        params = {"message": message, "configuration": {"pushNotificationConfig": config}}
        call = {"method": "message/send", "params": params}
    with open_client(server, "sdk") as client:
        response = client.post(
            "", json={"jsonrpc": "2.0", "id": 1, **call}, headers=V1 if version == "1.0" else V03
        )
    result: dict[str, Any] = response.json()["result"]
    return result.get("task", result)


@pytest.mark.parametrize(("version", "done"), [("1.0", "TASK_STATE_COMPLETED"), ("0.3", "completed")])
def test_background_call_is_notified_under_the_callers_task_id(
    server: RunningServer, agent: SdkAgent, receiver: Receiver, version: str, done: str
) -> None:
    agent.executor.go_on.clear()
    path = f"/late-task/{version}"
    early = send_to_sdk_agent(server, "late task", receiver.url + path, version)
    assert early["metadata"] == {"relay_reason": "TIMEOUT"}
    agent.executor.go_on.set()
    receiver.wait_for(path, done)
    named = {
        about.get("taskId") or about.get("id")
        for one in receiver.at(path)
        for about in [
            one.body.get("statusUpdate") or one.body.get("artifactUpdate") or one.body.get("task") or one.body
        ]
    }
    assert named == {early["id"]}


@pytest.mark.parametrize(("version", "done"), [("1.0", "TASK_STATE_COMPLETED"), ("0.3", "completed")])
def test_late_message_is_notified_as_the_end_of_the_relays_task(
    server: RunningServer, agent: SdkAgent, receiver: Receiver, version: str, done: str
) -> None:
    agent.executor.go_on.clear()
    path = f"/late-chat/{version}"
    early = send_to_sdk_agent(server, "late chat", receiver.url + path, version)
    agent.executor.go_on.set()
    told = receiver.wait_for(path, done)
    about = told.body["task"] if version == "1.0" else told.body
    assert about["id"] == early["id"]
    assert about["status"]["message"]["parts"][0]["text"] == "at last"
    assert told.headers["x-a2a-notification-token"] == "acme's own"


def test_a_receiver_that_fails_is_tried_again(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    pusher = send_with_config(acme, raw_agent, "t-again", {"url": f"{receiver.url}/again"})
    receiver.statuses[:] = [503, 404]
    assert pusher.push(build_status_update("t-again", "COMPLETED")).status_code == 204
    for attempt in (1, 2, 3):
        eventually(lambda attempt=attempt: len(receiver.at("/again")) == attempt)  # type: ignore[misc]
        eventually(lambda: _count_attempts(server) in (attempt, None))  # noqa: B023
        server.advance(minutes=attempt * 10)
    wait_for_deliveries(server)
    assert [one.body for one in receiver.at("/again")] == [build_status_update("t-again", "COMPLETED")] * 3


def _count_attempts(server: RunningServer) -> int | None:
    waiting = server.run(server.parts.store.list_deliveries(DeliveryFilter(state="waiting")))
    return waiting[0].attempts if waiting else None


def test_receiver_that_answers_410_is_not_called_again(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    pusher = send_with_config(acme, raw_agent, "t-gone", {"url": f"{receiver.url}/gone"})
    receiver.statuses[:] = [410]
    assert pusher.push(build_status_update("t-gone")).status_code == 204
    wait_for_deliveries(server)
    assert pusher.push(build_status_update("t-gone", "COMPLETED")).status_code == 404
    assert len(receiver.at("/gone")) == 1


def test_delivered_notification_is_not_stored(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    pusher = send_with_config(
        acme, raw_agent, "t-kept", {"url": f"{receiver.url}/kept", "token": "a-very-secret-token"}
    )
    assert pusher.push(
        build_task_event("t-kept", "COMPLETED", message={"parts": [{"text": "a private word"}]})
    ).is_success
    wait_for_deliveries(server)
    kept = b"".join(file.read_bytes() for file in Path(server.parts.settings.db).parent.iterdir())
    assert receiver.at("/kept")[0].headers["x-a2a-notification-token"] == "a-very-secret-token"
    assert b"a-very-secret-token" not in kept
    assert pusher.token.encode() not in kept
    [delivered] = [one for one in server.run(server.parts.store.list_deliveries()) if not one.body][:1]
    assert delivered.target == ""


def test_webhooks_outlive_a_restart(
    relay: RelaySettings, raw_agent: RawAgent, receiver: Receiver, tmp_path: Path
) -> None:
    with running(tmp_path, relay=relay) as before:
        with open_client(before, "raw") as client:
            client.headers.update(V1)
            pusher = send_with_config(
                client,
                raw_agent,
                "t-kept",
                {"url": f"{receiver.url}/restarted", "token": "mine", "id": "one"},
            )
        key = before.api_key
    with running(tmp_path, relay=relay) as after:
        moved = Pusher(pusher.config | {"url": pusher.url.replace(before.url, after.url)})
        assert moved.push(build_status_update("somebody-else")).status_code == 404
        assert moved.push(build_status_update("t-kept", "COMPLETED")).status_code == 204
        told = receiver.wait_for("/restarted", "TASK_STATE_COMPLETED")
        assert told.headers["x-a2a-notification-token"] == "mine"
        raw_agent.behave = answer_with(
            200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": moved.config}).encode()
        )
        params = {"taskId": "t-kept", "id": "one"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetTaskPushNotificationConfig", "params": params}
        headers = {"Authorization": f"Bearer {key}", **V1}
        shown = httpx.post(
            f"{after.url}/relay/v1/agents/raw", json=call, headers=headers, verify=False, timeout=PATIENCE_S
        )
        assert shown.json()["result"]["url"] == f"{receiver.url}/restarted"


def test_a_webhook_goes_with_its_task(
    server: RunningServer, acme: httpx.Client, raw_agent: RawAgent, receiver: Receiver
) -> None:
    pusher = send_with_config(acme, raw_agent, "t-old", {"url": f"{receiver.url}/old"})
    server.advance(days=100)
    while server.run(server.parts.store.delete_older("default", before=server.clock())):
        pass
    assert pusher.push(build_status_update("t-old")).status_code == 404
