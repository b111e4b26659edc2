"""A message is held before it reaches the agent: what its caller sees, and what becomes of it."""

import asyncio

import pytest

from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding import (
    CANCELED,
    DONE,
    LEGS,
    WORKING,
    decide,
    errand,
    pending,
    reason,
    settled,
    task_of,
    texts,
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
        async with errand(server, binding, version) as made:
            reached = agent.executor.texts.count("echo tulip")
            [sent] = await made.send("echo tulip")
            task = sent.task
            assert task.status.state == WORKING
            assert reason(task) == HELD
            assert (await task_of(made, task.id)).status.state == WORKING
            assert agent.executor.texts.count("echo tulip") == reached
            settled(server, decide(server, task.id))
            answered = await task_of(made, task.id)
            assert answered.status.state == DONE
            assert answered.id == task.id
            assert texts(answered) == ["echo tulip 0", "echo tulip 1", "echo tulip 2"]
            assert reason(answered) == {}
            assert agent.executor.texts.count("echo tulip") == reached + 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_a_rejected_message_is_canceled_and_never_sent(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            reached = len(agent.executor.texts)
            [sent] = await made.send("echo tulip")
            settled(server, decide(server, sent.task.id, "reject"))
            ended = await task_of(made, sent.task.id)
            assert ended.status.state == CANCELED
            assert reason(ended) == HELD | {"relay_reason": "HITL_REJECTED"}
            assert len(agent.executor.texts) == reached

    asyncio.run(run())


@pytest.mark.parametrize("leg", LEGS)
def test_each_leg_holds_and_goes_on(agent: SdkAgent, server: RunningServer, leg: str) -> None:
    async def run() -> None:
        async with errand(server) as made:
            message = f"once {LEGS[leg]}"
            [sent] = await made.send(message)
            assert reason(sent.task)["policy_name"] == f"No {LEGS[leg]}"
            assert not sent.task.artifacts
            settled(server, decide(server, sent.task.id))
            answered = await task_of(made, sent.task.id)
            assert answered.status.state == DONE
            assert texts(answered) == [f"{message} {number}" for number in range(3)]
            assert agent.executor.texts.count(message) == 1

    asyncio.run(run())


def test_an_approved_text_is_not_held_again_on_later_legs_but_new_ones_are(
    agent: SdkAgent, server: RunningServer
) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo rose")
            first = decide(server, sent.task.id)
            settled(server, first)
            assert agent.executor.texts.count("echo rose") == 1
            again = pending(server, sent.task.id)
            assert again.id != first.id
            assert again.task_id == sent.task.id
            assert reason(await task_of(made, sent.task.id))["relay_reason"] == "HITL_HELD"
            settled(server, decide(server, sent.task.id))
            answered = await task_of(made, sent.task.id)
            assert texts(answered) == ["echo rose 0", "echo rose 1", "echo rose 2"]
            assert agent.executor.texts.count("echo rose") == 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
@pytest.mark.parametrize("flower", ["tulip", "marigold"])
def test_what_is_told_in_one_dialect_is_told_in_all(
    server: RunningServer, binding: str, version: str, flower: str
) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            [sent] = await made.send(f"echo {flower}")
            [refused] = await made.send(f"echo {flower}")
            [chatted] = await made.send("chat about a tulip")
        tasks = [sent.task.id, refused.task.id, chatted.task.id]
        for other in BINDINGS:
            async with errand(server, *other) as made:
                assert [(await task_of(made, one)).status.state for one in tasks] == [WORKING] * 3
        settled(server, decide(server, sent.task.id))
        settled(server, decide(server, refused.task.id, "reject"))
        settled(server, decide(server, chatted.task.id))
        told = []
        for other in BINDINGS:
            async with errand(server, *other) as made:
                told.append([await task_of(made, one) for one in tasks])
        for answered, canceled, chat in told:
            assert texts(answered) == [f"echo {flower} {number}" for number in range(3)]
            assert (answered.status.state, canceled.status.state, chat.status.state) == (DONE, CANCELED, DONE)
            assert answered.status.message.parts[0].text == "done"
            assert [part.data for one in answered.artifacts for part in one.parts if part.HasField("data")]
            assert reason(canceled)["relay_reason"] == "HITL_REJECTED"
            assert chat.status.message.parts[0].text == "hello"

    asyncio.run(run())
