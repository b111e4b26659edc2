"""A message is held before it reaches the agent: what its caller sees, and what becomes of it."""

import asyncio

import pytest

from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    CANCELED,
    DONE,
    LEGS,
    WORKING,
    decide,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    wait_until_done,
    wait_until_settled,
)
from tests.relay.traffic.test_pass_through import BINDINGS
from tests.server.running import RunningServer

HELD = {
    "relay_reason": "HITL_HELD",
    "policy_name": "No tulip",
    "policy_version": "1",
    "policy_level": "TENANT",
}


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_a_held_message_waits_and_is_answered_once_it_is_approved(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            reached = agent.executor.texts.count("echo tulip")
            [sent] = await made.send("echo tulip")
            task = sent.task
            assert task.status.state == WORKING
            assert read_metadata(task) == HELD
            assert (await get_task(made, task.id)).status.state == WORKING
            assert agent.executor.texts.count("echo tulip") == reached
            wait_until_settled(server, decide(server, task.id))
            answered = await wait_until_done(made, task.id)
            assert answered.status.state == DONE
            assert answered.id == task.id
            assert list_artifact_texts(answered) == ["echo tulip 0", "echo tulip 1", "echo tulip 2"]
            assert read_metadata(answered) == {}
            assert agent.executor.texts.count("echo tulip") == reached + 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_a_rejected_message_is_canceled_and_never_sent(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            reached = len(agent.executor.texts)
            [sent] = await made.send("echo tulip")
            wait_until_settled(server, decide(server, sent.task.id, "reject"))
            ended = await get_task(made, sent.task.id)
            assert ended.status.state == CANCELED
            assert read_metadata(ended) == HELD | {"relay_reason": "HITL_REJECTED"}
            assert len(agent.executor.texts) == reached

    asyncio.run(run())


@pytest.mark.parametrize("leg", LEGS)
def test_each_leg_holds_and_goes_on(agent: SdkAgent, server: RunningServer, leg: str) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            message = f"once {LEGS[leg]}"
            [sent] = await made.send(message)
            assert read_metadata(sent.task)["policy_name"] == f"No {LEGS[leg]}"
            assert not sent.task.artifacts
            wait_until_settled(server, decide(server, sent.task.id))
            answered = await wait_until_done(made, sent.task.id)
            assert answered.status.state == DONE
            assert list_artifact_texts(answered) == [f"{message} {number}" for number in range(3)]
            assert agent.executor.texts.count(message) == 1

    asyncio.run(run())


def test_an_approved_value_is_not_held_again_on_later_legs(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo rose")
            wait_until_settled(server, decide(server, sent.task.id))
            answered = await wait_until_done(made, sent.task.id)
            assert list_artifact_texts(answered) == ["echo rose 0", "echo rose 1", "echo rose 2"]
            assert agent.executor.texts.count("echo rose") == 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
@pytest.mark.parametrize("flower", ["tulip", "marigold"])
def test_held_task_looks_the_same_in_every_dialect(
    server: RunningServer, binding: str, version: str, flower: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send(f"echo {flower}")
            [refused] = await made.send(f"echo {flower}")
            [chatted] = await made.send("chat about a tulip")
        tasks = [sent.task.id, refused.task.id, chatted.task.id]
        for other in BINDINGS:
            async with open_sdk_caller(server, *other) as made:
                assert [(await get_task(made, one)).status.state for one in tasks] == [WORKING] * 3
        wait_until_settled(server, decide(server, sent.task.id))
        wait_until_settled(server, decide(server, refused.task.id, "reject"))
        wait_until_settled(server, decide(server, chatted.task.id))
        told = []
        for other in BINDINGS:
            async with open_sdk_caller(server, *other) as made:
                told.append([await get_task(made, one) for one in tasks])
        for answered, canceled, chat in told:
            assert list_artifact_texts(answered) == [f"echo {flower} {number}" for number in range(3)]
            assert (answered.status.state, canceled.status.state, chat.status.state) == (DONE, CANCELED, DONE)
            assert answered.status.message.parts[0].text == "done"
            assert [part.data for one in answered.artifacts for part in one.parts if part.HasField("data")]
            assert read_metadata(canceled)["relay_reason"] == "HITL_REJECTED"
            assert chat.status.message.parts[0].text == "hello"

    asyncio.run(run())
