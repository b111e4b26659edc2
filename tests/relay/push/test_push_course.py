"""What becomes of notifications in time: late answers, receivers that fail, restarts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answering, raw_agent
from tests.relay.a2a.sdk_agent import SdkAgent, running_agent
from tests.relay.push.pushing import V1, Pusher, given, settle, task, update
from tests.relay.push.receiver import Receiver, receiving
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

V03 = {"A2A-Version": "0.3"}


@pytest.fixture(scope="module")
def raw() -> Iterator[RawAgent]:
    with raw_agent() as found:
        yield found


@pytest.fixture(scope="module")
def sdk() -> Iterator[SdkAgent]:
    with running_agent() as found:
        yield found


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def relay(raw: RawAgent, sdk: SdkAgent) -> RelaySettings:
    return RelaySettings(
        agents={"raw": AgentSettings(url=raw.url), "sdk": AgentSettings(url=sdk.url)},
        callers={"acme": CallerSettings(agents=("raw", "sdk"))},
        early_return="0.5s",
    )


@pytest.fixture(scope="module")
def server(relay: RelaySettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("push"), relay=relay) as found:
        yield found


def caller(server: RunningServer, agent: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{server.url}/relay/v1/agents/{agent}",
        headers={"Authorization": f"Bearer {server.api_key}"},
        verify=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> Iterator[httpx.Client]:
    with caller(server, "raw") as found:
        found.headers.update(V1)
        yield found


def ask_sdk(server: RunningServer, text: str, url: str, version: str) -> dict[str, Any]:
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
    with caller(server, "sdk") as client:
        response = client.post(
            "", json={"jsonrpc": "2.0", "id": 1, **call}, headers=V1 if version == "1.0" else V03
        )
    result: dict[str, Any] = response.json()["result"]
    return result.get("task", result)


@pytest.mark.parametrize(("version", "done"), [("1.0", "TASK_STATE_COMPLETED"), ("0.3", "completed")])
def test_a_call_that_outlasts_its_caller_is_told_under_the_name_the_caller_was_given(
    server: RunningServer, sdk: SdkAgent, receiver: Receiver, version: str, done: str
) -> None:
    sdk.executor.go_on.clear()
    path = f"/late-task/{version}"
    early = ask_sdk(server, "late task", receiver.url + path, version)
    assert early["metadata"] == {"relay_reason": "TIMEOUT"}
    sdk.executor.go_on.set()
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
def test_a_late_message_is_told_as_the_end_of_the_relays_own_task(
    server: RunningServer, sdk: SdkAgent, receiver: Receiver, version: str, done: str
) -> None:
    sdk.executor.go_on.clear()
    path = f"/late-chat/{version}"
    early = ask_sdk(server, "late chat", receiver.url + path, version)
    sdk.executor.go_on.set()
    told = receiver.wait_for(path, done)
    about = told.body["task"] if version == "1.0" else told.body
    assert about["id"] == early["id"]
    assert about["status"]["message"]["parts"][0]["text"] == "at last"
    assert told.headers["x-a2a-notification-token"] == "acme's own"


def test_a_receiver_that_fails_is_tried_again(
    server: RunningServer, acme: httpx.Client, raw: RawAgent, receiver: Receiver
) -> None:
    pusher = given(acme, raw, "t-again", {"url": f"{receiver.url}/again"})
    receiver.statuses[:] = [503, 404]
    assert pusher.push(update("t-again", "COMPLETED")).status_code == 204
    for attempt in (1, 2, 3):
        eventually(lambda attempt=attempt: len(receiver.at("/again")) == attempt)  # type: ignore[misc]
        eventually(lambda: _attempts(server) in (attempt, None))  # noqa: B023
        server.advance(minutes=attempt * 10)
    settle(server)
    assert [one.body for one in receiver.at("/again")] == [update("t-again", "COMPLETED")] * 3


def _attempts(server: RunningServer) -> int | None:
    waiting = server.run(server.parts.store.list_deliveries(state="waiting"))
    return waiting[0].attempts if waiting else None


def test_a_receiver_that_is_gone_is_not_bothered_again(
    server: RunningServer, acme: httpx.Client, raw: RawAgent, receiver: Receiver
) -> None:
    pusher = given(acme, raw, "t-gone", {"url": f"{receiver.url}/gone"})
    receiver.statuses[:] = [410]
    assert pusher.push(update("t-gone")).status_code == 204
    settle(server)
    assert pusher.push(update("t-gone", "COMPLETED")).status_code == 404
    assert len(receiver.at("/gone")) == 1


def test_what_was_told_is_not_kept(
    server: RunningServer, acme: httpx.Client, raw: RawAgent, receiver: Receiver
) -> None:
    pusher = given(acme, raw, "t-kept", {"url": f"{receiver.url}/kept", "token": "a-very-secret-token"})
    assert pusher.push(
        task("t-kept", "COMPLETED", message={"parts": [{"text": "a private word"}]})
    ).is_success
    settle(server)
    kept = b"".join(file.read_bytes() for file in Path(server.parts.settings.db).parent.iterdir())
    assert receiver.at("/kept")[0].headers["x-a2a-notification-token"] == "a-very-secret-token"
    assert b"a-very-secret-token" not in kept
    assert pusher.token.encode() not in kept
    [delivered] = [one for one in server.run(server.parts.store.list_deliveries()) if not one.body][:1]
    assert delivered.target == ""


def test_webhooks_outlive_a_restart(
    relay: RelaySettings, raw: RawAgent, receiver: Receiver, tmp_path: Path
) -> None:
    with running(tmp_path, relay=relay) as before:
        with caller(before, "raw") as client:
            client.headers.update(V1)
            pusher = given(
                client, raw, "t-kept", {"url": f"{receiver.url}/restarted", "token": "mine", "id": "one"}
            )
        key = before.api_key
    with running(tmp_path, relay=relay) as after:
        moved = Pusher(pusher.config | {"url": pusher.url.replace(before.url, after.url)})
        assert moved.push(update("somebody-else")).status_code == 404
        assert moved.push(update("t-kept", "COMPLETED")).status_code == 204
        told = receiver.wait_for("/restarted", "TASK_STATE_COMPLETED")
        assert told.headers["x-a2a-notification-token"] == "mine"
        raw.behave = answering(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": moved.config}).encode())
        params = {"taskId": "t-kept", "id": "one"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetTaskPushNotificationConfig", "params": params}
        headers = {"Authorization": f"Bearer {key}", **V1}
        shown = httpx.post(
            f"{after.url}/relay/v1/agents/raw", json=call, headers=headers, verify=False, timeout=PATIENCE_S
        )
        assert shown.json()["result"]["url"] == f"{receiver.url}/restarted"


def test_a_webhook_goes_with_its_task(
    server: RunningServer, acme: httpx.Client, raw: RawAgent, receiver: Receiver
) -> None:
    pusher = given(acme, raw, "t-old", {"url": f"{receiver.url}/old"})
    server.advance(days=100)
    while server.run(server.parts.store.delete_older("default", before=server.clock())):
        pass
    assert pusher.push(update("t-old")).status_code == 404
