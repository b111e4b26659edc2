"""Holds on what has a name already: calls that outlasted their callers, and tasks that go on."""

import asyncio
from collections.abc import Iterator

import pytest
from a2a.types.a2a_pb2 import Task, TaskState
from a2a.utils.errors import UnsupportedOperationError

from placet.ports.hold_store import HoldFilter
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    CANCELED,
    DONE,
    decide,
    find_pending_hold,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    run_holding_server,
    wait_until_done,
    wait_until_settled,
)
from tests.relay.holds.test_held_streams import PATIENCE_S
from tests.relay.sample_records import build_message_call
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller
from tests.server.running import RunningServer

TIMEOUT = {"relay_reason": "TIMEOUT"}
ASKED = TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.fixture(scope="module")
def early_return_server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A relay that lets nobody wait."""
    folder = tmp_path_factory.mktemp("hasty")
    agents = {"errands": agent.url, "frank": agent.url}
    with run_holding_server(folder, agents, early_return="1s") as found:
        yield found


async def wait_for_hold_reason(made: SdkCaller, task_id: str) -> str:
    """Why a task is held, once it is."""
    async with asyncio.timeout(PATIENCE_S):
        while (why := read_metadata(await get_task(made, task_id))) == TIMEOUT:
            pass
    return str(why["relay_reason"])


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_late_reply_is_held_under_the_callers_task_id(
    agent: SdkAgent, early_return_server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        agent.executor.go_on.clear()
        async with open_sdk_caller(early_return_server, binding, version) as made:
            sent = await made.send("late task marigold")
            task_id = [one.task.id for one in sent if one.HasField("task")][-1]
            assert read_metadata(await get_task(made, task_id)) in (TIMEOUT, {})
            agent.executor.go_on.set()
            async with asyncio.timeout(PATIENCE_S):
                while (answered := await get_task(made, task_id)).status.state != DONE:
                    if read_metadata(answered).get("policy_name") == "No marigold":
                        wait_until_settled(early_return_server, decide(early_return_server, task_id))
            asked = HoldFilter(task_id=task_id, status="APPROVED")
            _, count = early_return_server.run(
                early_return_server.parts.store.list_holds("default", asked, page=0, size=1)
            )
            assert count >= 1
            assert answered.id == task_id
            assert list_artifact_texts(answered)[0] == "late task marigold 0"

    asyncio.run(run())


def test_late_question_is_held_under_the_callers_task_id(
    agent: SdkAgent, early_return_server: RunningServer
) -> None:
    async def run() -> None:
        agent.executor.go_on.clear()
        async with open_sdk_caller(early_return_server) as made:
            [sent] = await made.send("late ask")
            assert read_metadata(sent.task) == TIMEOUT
            agent.executor.go_on.set()
            assert await wait_for_hold_reason(made, sent.task.id) == "HITL_HELD_AGENT_INPUT_REQUIRED"
            wait_until_settled(
                early_return_server, decide(early_return_server, sent.task.id, message="the late one")
            )
            answered = await wait_until_done(made, sent.task.id)
            assert (answered.status.state, list_artifact_texts(answered)[:1]) == (DONE, ["the late one 0"]), (
                answered
            )

    asyncio.run(run())


def test_a_late_chat_is_held_and_shown_as_a_task(agent: SdkAgent, early_return_server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(early_return_server) as made:
            [sent] = await made.send("chat about a tulip")
            wait_until_settled(early_return_server, decide(early_return_server, sent.task.id))
            answered = await wait_until_done(made, sent.task.id)
            assert answered.status.state == DONE
            assert answered.status.message.parts[0].text == "hello"

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_a_held_reply_to_an_agents_question_goes_to_its_task(
    agent: SdkAgent, early_return_server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(early_return_server, binding, version, agent="frank") as made:
            [asked] = await made.send("ask")
            task = asked.task
            assert read_metadata(task) == {}
            [sent] = await made.send("one tulip", task_id=task.id, context_id=task.context_id)
            assert sent.task.id == task.id
            assert read_metadata(sent.task)["policy_name"] == "No tulip"
            assert read_metadata(await get_task(made, task.id))["policy_name"] == "No tulip"
            wait_until_settled(early_return_server, decide(early_return_server, task.id))
            answered = await wait_until_done(made, task.id)
            assert (answered.id, answered.context_id) == (task.id, task.context_id)
            assert list_artifact_texts(answered)[0] == "one tulip 0"

    asyncio.run(run())


def test_concurrent_replies_hold_one_and_refuse_the_others(
    early_return_server: RunningServer,
) -> None:
    async def run() -> None:
        async with open_sdk_caller(early_return_server, agent="frank") as made:
            [asked] = await made.send("ask")
            named = {"task_id": asked.task.id, "context_id": asked.task.context_id}
            replies = [made.send(f"{number} tulips", **named) for number in range(4)]
            told = await asyncio.gather(*replies, return_exceptions=True)
            refused = [one for one in told if isinstance(one, UnsupportedOperationError)]
            assert len(refused) == 3
            assert find_pending_hold(early_return_server, asked.task.id).task_id == asked.task.id

    asyncio.run(run())


def test_a_refused_reply_cancels_the_task_that_it_was_for(
    agent: SdkAgent, early_return_server: RunningServer
) -> None:
    async def run() -> None:
        async with open_sdk_caller(early_return_server, agent="frank") as made:
            [asked] = await made.send("ask")
            before = agent.executor.canceled
            await made.send("one tulip", task_id=asked.task.id, context_id=asked.task.context_id)
            wait_until_settled(early_return_server, decide(early_return_server, asked.task.id, "reject"))
            assert (await get_task(made, asked.task.id)).status.state == CANCELED
            assert agent.executor.canceled == before + 1

    asyncio.run(run())


def test_approval_does_not_extend_to_a_task_that_references_it(
    agent: SdkAgent, early_return_server: RunningServer
) -> None:
    async def run() -> Task:
        async with open_sdk_caller(early_return_server, agent="frank") as made:
            [sent] = await made.send("ask for a tulip")
            wait_until_settled(early_return_server, decide(early_return_server, sent.task.id))
            return await get_task(made, sent.task.id)

    approved = asyncio.run(run())
    assert approved.status.state == ASKED
    call = build_message_call("ask for a tulip", "m-again")
    call["params"]["message"]["referenceTaskIds"] = [approved.id]
    with early_return_server.client(early_return_server.api_key, verify=False) as client:
        answer = client.post("/relay/v1/agents/frank", json=call, headers={"A2A-Version": "1.0"}).json()
    task = answer["result"]["task"]
    assert task.get("metadata", {}).get("policy_name") == "No tulip"
    assert task["id"] != approved.id
