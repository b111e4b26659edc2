"""Real SDK clients ask to be told, a real SDK agent pushes, and the relay stands between them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.push.receiver import Receiver
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller, remove_variable_parts
from tests.server.running import RunningServer, running

DONE = {"1.0": "TASK_STATE_COMPLETED", "0.3": "completed"}
ASKED = {"1.0": "TASK_STATE_INPUT_REQUIRED", "0.3": "input-required"}


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    relay = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url, input_required="pass")},
        callers={"acme": CallerSettings(agents=("errands",)), "other": CallerSettings(agents=("errands",))},
    )
    with running(tmp_path_factory.mktemp("push"), relay=relay) as found:
        yield found


def open_sdk_caller(server: RunningServer, binding: str, version: str) -> SdkCaller:
    return SdkCaller(f"{server.url}/relay/v1/agents/errands", server.api_key, binding, version)


def build_config(receiver: Receiver, path: str, **fields: Any) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(
        url=receiver.url + path,
        token="the caller's own",
        authentication=AuthenticationInfo(scheme="Basic", credentials="YWNtZTpzZWNyZXQ="),
        **fields,
    )


async def send_with_push_config(
    made: SdkCaller, text: str, wanted: TaskPushNotificationConfig, *, stream: bool = False
) -> Any:
    configuration = SendMessageConfiguration(task_push_notification_config=wanted)
    message = new_text_message(text, role=Role.ROLE_USER)
    request = SendMessageRequest(message=message, configuration=configuration)
    client = made.streaming if stream else made.unary
    return [event async for event in client.send_message(request)]


@pytest.mark.parametrize("stream", [False, True], ids=["send", "stream"])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_push_config_in_a_message_is_used_with_the_callers_credentials(
    server: RunningServer, receiver: Receiver, binding: str, version: str, stream: bool
) -> None:
    path = f"/inline/{binding}/{version}/{stream}"

    async def run() -> Any:
        async with open_sdk_caller(server, binding, version) as made:
            return await send_with_push_config(made, "echo", build_config(receiver, path), stream=stream)

    answer = asyncio.run(run())[0]
    told = receiver.wait_for(path, DONE[version])
    assert told.headers["x-a2a-notification-token"] == "the caller's own"
    assert told.headers["authorization"] == "Basic YWNtZTpzZWNyZXQ="
    assert told.headers["content-type"] == "application/json"
    about = told.body if version == "0.3" else told.body.get("statusUpdate") or told.body["task"]
    assert answer.task.id in (about.get("taskId"), about.get("id"))
    if version == "0.3":
        assert {one.body["kind"] for one in receiver.at(path)} == {"task"}
    else:
        assert all(len(one.body) == 1 for one in receiver.at(path))
    states = receiver.states(path)
    assert states == sorted(states, key=states.index)
    assert states[-1] == DONE[version]


async def exercise_config_methods(made: SdkCaller, receiver: Receiver) -> list[Any]:
    """Everything a client can do with configs, as it sees it."""
    [asked] = await made.send("ask")
    task_id = asked.task.id
    found: list[Any] = []

    async def do(step: Any) -> None:
        try:
            found.append(await step)
        except Exception as error:
            found.append(f"{type(error).__name__}")

    client = made.unary
    for name in ("one", "two", "one"):
        wanted = build_config(receiver, f"/{name}", task_id=task_id, id=name)
        await do(client.create_task_push_notification_config(wanted))
    nameless = TaskPushNotificationConfig(task_id=task_id, url=f"{receiver.url}/nameless")
    await do(client.create_task_push_notification_config(nameless))
    listing = ListTaskPushNotificationConfigsRequest(task_id=task_id)
    await do(client.list_task_push_notification_configs(listing))
    for name in ("one", "nobody's"):
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=name)
        await do(client.get_task_push_notification_config(request))
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=name)
        await do(client.delete_task_push_notification_config(gone))
        await do(client.get_task_push_notification_config(request))
    await do(client.list_task_push_notification_configs(listing))
    return found


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_configs_read_back_as_they_were_made(
    agent: SdkAgent, server: RunningServer, receiver: Receiver, binding: str, version: str
) -> None:
    async def run(made: SdkCaller) -> str:
        async with made:
            return remove_variable_parts(await exercise_config_methods(made, receiver))

    direct = asyncio.run(run(SdkCaller(agent.url, None, binding, version)))
    relayed = asyncio.run(run(open_sdk_caller(server, binding, version)))
    assert relayed == direct
    assert server.url not in relayed


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_later_config_is_notified_and_a_deleted_one_is_not(
    server: RunningServer, receiver: Receiver, binding: str, version: str
) -> None:
    paths = [f"/{name}/{binding}/{version}" for name in ("kept", "gone")]

    async def run() -> str:
        async with open_sdk_caller(server, binding, version) as made:
            [asked] = await made.send("ask")
            for path in paths:
                wanted = build_config(
                    receiver, path, task_id=asked.task.id, id=path.strip("/").replace("/", "-")
                )
                await made.unary.create_task_push_notification_config(wanted)
            if (binding, version) != ("HTTP+JSON", "0.3"):  # which cannot delete
                gone = DeleteTaskPushNotificationConfigRequest(
                    task_id=asked.task.id, id=paths[1].strip("/").replace("/", "-")
                )
                await made.unary.delete_task_push_notification_config(gone)
            await made.send("echo", task_id=asked.task.id, context_id=asked.task.context_id)
            return str(asked.task.id)

    asyncio.run(run())
    receiver.wait_for(paths[0], DONE[version])
    assert bool(receiver.at(paths[1])) is ((binding, version) == ("HTTP+JSON", "0.3"))
