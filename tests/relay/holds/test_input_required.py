"""An agent asks for input: a person is asked, not the caller, and the person's answer goes to the agent."""

import asyncio

import msgspec
import pytest
from a2a.types.a2a_pb2 import SubscribeToTaskRequest, TaskState

from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    CANCELED,
    DONE,
    WORKING,
    decide,
    find_pending_hold,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    wait_until_done,
    wait_until_settled,
)
from tests.relay.holds.test_held_streams import PATIENCE_S, EventStream, find_last_task, start_held_stream
from tests.relay.traffic.test_pass_through import BINDINGS
from tests.server.running import RunningServer

HELD = {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_the_reviewers_answer_goes_to_the_agent_on_the_same_task(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send("ask")
            assert sent.task.status.state == WORKING
            assert read_metadata(sent.task) == HELD
            assert not sent.task.status.HasField("message")
            hold = find_pending_hold(server, sent.task.id)
            assert hold.detection_source == "AGENT_INPUT_REQUIRED"
            assert hold.policy_name is None
            assert b"which one?" in hold.body
            wait_until_settled(
                server, decide(server, sent.task.id, message=f"the red one, {binding} {version}")
            )
            answered = await wait_until_done(made, sent.task.id)
            assert answered.status.state == DONE
            assert answered.id == sent.task.id
            assert list_artifact_texts(answered)[0] == f"the red one, {binding} {version} 0"
            assert read_metadata(answered) == {}
            assert agent.executor.texts[-1] == f"the red one, {binding} {version}"

    asyncio.run(run())


def test_approval_without_message_sends_approved_to_the_agent(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("ask")
            wait_until_settled(server, decide(server, sent.task.id))
            assert agent.executor.texts[-1] == "Approved"
            assert (await wait_until_done(made, sent.task.id)).status.state == DONE

    asyncio.run(run())


def test_an_agent_may_ask_again(server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("ask")
            first = decide(server, sent.task.id, message="ask me another")
            wait_until_settled(server, first)
            assert read_metadata(await get_task(made, sent.task.id)) == HELD
            assert find_pending_hold(server, sent.task.id).id != first.id
            wait_until_settled(server, decide(server, sent.task.id, message="now do it"))
            assert list_artifact_texts(await wait_until_done(made, sent.task.id))[0] == "now do it 0"

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_a_refusal_cancels_the_task_with_the_agent_too(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send("ask")
            before = agent.executor.canceled
            wait_until_settled(server, decide(server, sent.task.id, "reject"))
            ended = await wait_until_done(made, sent.task.id)
            assert ended.status.state == CANCELED
            nobody = dict.fromkeys(("policy_name", "policy_version", "policy_level"))
            assert read_metadata(ended) == {"relay_reason": "HITL_REJECTED", **nobody}
            assert agent.executor.canceled == before + 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_question_in_a_stream_is_held_and_answered_in_the_stream(
    server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            stream, seen = await start_held_stream(made, "ask")
            assert read_metadata(find_last_task(seen)) == HELD
            assert "which one?" not in str(seen)
            decide(server, find_last_task(seen).id, message="that one")
            answered = find_last_task(await stream.rest())
            assert list_artifact_texts(answered)[0] == "that one 0"

    asyncio.run(run())


def test_question_found_by_a_later_get_is_held_once(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            agent.executor.go_on.clear()
            [sent] = await made.send("late ask", return_immediately=True)
            assert read_metadata(sent.task) == {}
            agent.executor.go_on.set()
            async with asyncio.timeout(PATIENCE_S):
                while not read_metadata(met := await get_task(made, sent.task.id)):
                    assert met.status.state != TaskState.TASK_STATE_INPUT_REQUIRED
            assert read_metadata(met) == HELD
            again = await asyncio.gather(*(get_task(made, sent.task.id) for _ in range(5)))
            assert [read_metadata(one) for one in again] == [HELD] * 5
            wait_until_settled(server, decide(server, sent.task.id, message="fine"))
            assert list_artifact_texts(await wait_until_done(made, sent.task.id))[0] == "fine 0"

    asyncio.run(run())


def test_a_question_in_a_subscription_is_held(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            agent.executor.go_on.clear()
            [sent] = await made.send("late ask", return_immediately=True)
            stream = EventStream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
            await stream.next()
            agent.executor.go_on.set()
            event = await stream.next()
            while not (event.HasField("task") and read_metadata(event.task)):
                assert "which one?" not in str(event)
                event = await stream.next()
            assert read_metadata(event.task) == HELD
            decide(server, sent.task.id, message="well")
            assert list_artifact_texts(find_last_task(await stream.rest()))[0] == "well 0"

    asyncio.run(run())


def test_the_reviewer_sees_the_question_and_both_sides(server: RunningServer) -> None:
    async def run() -> str:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("ask")
            return find_pending_hold(server, sent.task.id).case_id

    found = server.run(server.parts.store.get_case_and_offer(asyncio.run(run())))
    assert found is not None
    case, offer = found
    held = offer.context["held_message"]
    assert (held["matter"], held["sender"], held["receiver"]) == ("input", "errands", "acme")
    assert held["texts"][0]["excerpts"][0]["text"] == "which one?"
    assert case.subject.entry_point == "relay"
    assert case.owner == "relay:default"
    assert b"held_message" in msgspec.json.encode(offer.context)


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_held_message_may_lead_to_a_question_on_the_same_task(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send("ask for a tulip")
            assert read_metadata(sent.task)["relay_reason"] == "HITL_HELD"
            wait_until_settled(server, decide(server, sent.task.id))
            assert read_metadata(await get_task(made, sent.task.id)) == HELD
            wait_until_settled(server, decide(server, sent.task.id, message="a yellow one"))
            answered = await wait_until_done(made, sent.task.id)
            assert (answered.id, list_artifact_texts(answered)[0]) == (sent.task.id, "a yellow one 0")
            [refused] = await made.send("ask for a tulip")
            wait_until_settled(server, decide(server, refused.task.id))
            before = agent.executor.canceled
            wait_until_settled(server, decide(server, refused.task.id, "reject"))
            assert agent.executor.canceled == before + 1
            assert (await get_task(made, refused.task.id)).status.state == CANCELED

    asyncio.run(run())
