"""Configs of a task that waits for a person before any agent has heard of it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
)
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import decide, open_sdk_caller, run_holding_server, wait_until_settled
from tests.relay.push.receiver import Receiver
from tests.relay.push.test_push import DONE, build_config, send_with_push_config
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller
from tests.server.running import RunningServer

WORKING = {"1.0": "TASK_STATE_WORKING", "0.3": "working"}


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_holding_server(tmp_path_factory.mktemp("early"), {"errands": agent.url}) as found:
        yield found


async def list_configs(made: SdkCaller, task_id: str) -> list[Any]:
    request = ListTaskPushNotificationConfigsRequest(task_id=task_id)
    listed = await made.unary.list_task_push_notification_configs(request)
    return [MessageToDict(one) for one in listed.configs]


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_config_for_a_held_task_is_notified(
    server: RunningServer, agent: SdkAgent, receiver: Receiver, binding: str, version: str
) -> None:
    path = f"/early/{binding}/{version}"
    agent.executor.go_on.clear()

    async def ask() -> str:
        async with open_sdk_caller(server, binding, version) as made:
            [held] = await made.send("late task with a tulip", return_immediately=True)
            task_id = str(held.task.id)
            wanted = build_config(receiver, path, task_id=task_id, id="one")
            assert await made.unary.create_task_push_notification_config(wanted) == wanted
            request = GetTaskPushNotificationConfigRequest(task_id=task_id, id="one")
            assert await made.unary.get_task_push_notification_config(request) == wanted
            if (binding, version) != ("HTTP+JSON", "0.3"):  # which neither lists nor deletes
                second = build_config(receiver, f"{path}/deleted", task_id=task_id, id="two")
                await made.unary.create_task_push_notification_config(second)
                assert [one["id"] for one in await list_configs(made, task_id)] == ["one", "two"]
                gone = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="two")
                await made.unary.delete_task_push_notification_config(gone)
                assert await list_configs(made, task_id) == [MessageToDict(wanted)]
            return task_id

    task_id = asyncio.run(ask())
    wait_until_settled(server, decide(server, task_id))
    receiver.wait_for(path, WORKING[version])
    agent.executor.go_on.set()
    told = receiver.wait_for(path, DONE[version])
    about = told.body if version == "0.3" else told.body.get("statusUpdate") or told.body["task"]
    assert task_id in (about.get("taskId"), about.get("id"))
    assert told.headers["authorization"] == "Basic YWNtZTpzZWNyZXQ="
    assert not receiver.at(f"{path}/deleted")


def test_rejection_of_a_held_task_is_notified(server: RunningServer, receiver: Receiver) -> None:
    async def ask() -> str:
        async with open_sdk_caller(server) as made:
            [held] = await made.send("echo a tulip")
            wanted = build_config(receiver, "/rejected", task_id=held.task.id)
            await made.unary.create_task_push_notification_config(wanted)
            return str(held.task.id)

    task_id = asyncio.run(ask())
    wait_until_settled(server, decide(server, task_id, "reject"))
    told = receiver.wait_for("/rejected", "TASK_STATE_CANCELED")
    assert told.body["task"]["metadata"]["relay_reason"] == "HITL_REJECTED"


def test_question_in_reply_and_push_is_held_once(
    server: RunningServer, agent: SdkAgent, receiver: Receiver
) -> None:
    async def ask() -> Any:
        async with open_sdk_caller(server) as made:
            return await send_with_push_config(made, "ask", build_config(receiver, "/asked"))

    [shown] = asyncio.run(ask())
    task_id = shown.task.id
    assert MessageToDict(shown.task.metadata) == {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}
    wait_until_settled(server, decide(server, task_id))
    told = receiver.wait_for("/asked", "TASK_STATE_COMPLETED")
    assert "which one?" not in str([one.body for one in receiver.at("/asked") if one is not told])
