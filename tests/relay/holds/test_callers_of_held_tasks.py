"""What callers may do with a task that waits for a person, and what nobody else may."""

import asyncio
from typing import Any

import pytest
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, ListTasksRequest
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from placet.ports.audit_store import AuditFilter
from placet.ports.hold_store import HoldFilter
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    CANCELED,
    DONE,
    FAILED,
    WORKING,
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
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller
from tests.server.running import RunningServer


def count_holds(server: RunningServer, task_id: str) -> int:
    asked = HoldFilter(task_id=task_id)
    return server.run(server.parts.store.list_holds("default", asked, page=0, size=1))[1]


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_canceling_withdraws_the_approval(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            told = len(agent.executor.texts)
            [sent] = await made.send("echo tulip")
            hold = find_pending_hold(server, sent.task.id)
            canceled = await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
            assert canceled.status.state == CANCELED
            assert read_metadata(canceled) == {}
            assert wait_until_settled(server, hold).status == "WITHDRAWN"
            case = server.run(server.parts.store.get_case(hold.case_id))
            assert case is not None
            assert case.status.value == "cancelled"
            assert (await get_task(made, sent.task.id)).status.state == CANCELED
            assert len(agent.executor.texts) == told
            with pytest.raises(TaskNotCancelableError):
                await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))

    asyncio.run(run())


def test_canceling_a_question_cancels_it_with_the_agent(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("ask")
            before, hold = agent.executor.canceled, find_pending_hold(server, sent.task.id)
            await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
            wait_until_settled(server, hold)
            assert agent.executor.canceled == before + 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_held_task_accepts_no_further_message(server: RunningServer, binding: str, version: str) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            for text in ("ask", "echo tulip"):
                [sent] = await made.send(text)
                for more in ("echo", "echo tulip"):
                    with pytest.raises(UnsupportedOperationError, match="waits for a person"):
                        await made.send(more, task_id=sent.task.id, context_id=sent.task.context_id)
                assert count_holds(server, sent.task.id) == 1

    asyncio.run(run())


def test_a_conversation_goes_on_after_a_held_message(server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip")
            wait_until_settled(server, decide(server, sent.task.id))
            answered = await get_task(made, sent.task.id)
            [more] = await made.send("echo", context_id=sent.task.context_id)
            assert more.task.context_id == answered.context_id

    asyncio.run(run())


def test_held_tasks_are_listed_only_for_their_caller(server: RunningServer) -> None:
    async def run() -> None:
        other = SdkCaller(
            f"{server.url}/relay/v1/agents/errands", server.create_key("other"), "JSONRPC", "1.0"
        )
        async with open_sdk_caller(server) as made, other as stranger:
            [request] = await made.send("echo tulip")
            [question] = await made.send("ask")
            listed = {one.id: one for one in (await made.unary.list_tasks(ListTasksRequest())).tasks}
            for sent in (request, question):
                assert listed[sent.task.id].status.state == WORKING
                assert read_metadata(listed[sent.task.id]) == read_metadata(sent.task)
            theirs = (await stranger.unary.list_tasks(ListTasksRequest())).tasks
            assert not {request.task.id, question.task.id} & {one.id for one in theirs}
            for action in (
                stranger.unary.get_task(GetTaskRequest(id=request.task.id)),
                stranger.unary.cancel_task(CancelTaskRequest(id=question.task.id)),
            ):
                with pytest.raises(TaskNotFoundError):
                    await action

    asyncio.run(run())


def test_a_held_task_stays_in_its_callers_list_however_it_ends(server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            rejected, withdrawn, approved = [(await made.send("echo tulip"))[0].task for _ in range(3)]
            wait_until_settled(server, decide(server, rejected.id, "reject"))
            await made.unary.cancel_task(CancelTaskRequest(id=withdrawn.id))
            wait_until_settled(server, decide(server, approved.id))
            listed = {one.id: one for one in (await made.unary.list_tasks(ListTasksRequest())).tasks}
            for sent, state in ((rejected, CANCELED), (withdrawn, CANCELED), (approved, DONE)):
                assert listed[sent.id].status.state == state
                assert read_metadata(listed[sent.id]) == read_metadata(await get_task(made, sent.id))

    asyncio.run(run())


def test_same_message_again_reuses_its_hold(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            held: list[Any] = []
            for _ in range(3):
                [sent] = await made.send_as("twice tulip", "message-7")
                held.append(sent.task.id)
            assert len(set(held)) == 1
            assert count_holds(server, held[0]) == 1
            wait_until_settled(server, decide(server, held[0]))
            assert agent.executor.texts.count("twice tulip") == 1
            [anew] = await made.send_as("twice tulip", "message-7")
            assert anew.task.id != held[0]

    asyncio.run(run())


def test_block_on_a_later_leg_fails_the_task_with_a_message(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip nettle")
            wait_until_settled(server, decide(server, sent.task.id))
            ended = await get_task(made, sent.task.id)
            assert ended.status.state == FAILED
            assert "Block nettle" in ended.status.message.parts[0].text
            assert "echo tulip nettle" not in agent.executor.texts

    asyncio.run(run())


def test_masking_applies_when_an_approved_message_resumes(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip and clover")
            wait_until_settled(server, decide(server, sent.task.id))
            assert (await wait_until_done(made, sent.task.id)).status.state == DONE
            assert "clover" not in agent.executor.texts[-1]
            assert agent.executor.texts[-1].startswith("echo tulip and [MASKED")

    asyncio.run(run())


def test_undecided_hold_expires(server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip")
            hold = find_pending_hold(server, sent.task.id)
            server.advance(hours=25)
            server.sweep()
            assert wait_until_settled(server, hold).status == "EXPIRED"
            ended = await get_task(made, sent.task.id)
            assert ended.status.state == CANCELED
            assert read_metadata(ended)["relay_reason"] == "HITL_EXPIRED"
            assert read_metadata(ended)["policy_name"] == "No tulip"
            assert "expired" in ended.status.message.parts[0].text

    asyncio.run(run())


def test_every_step_of_a_hold_is_in_the_audit(server: RunningServer) -> None:
    async def run() -> str:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip")
            wait_until_settled(server, decide(server, sent.task.id, "reject", "Not like this."))
            return str(sent.task.id)

    asked = AuditFilter(task_id=asyncio.run(run()), types=("HITL", "HITL_GUARD", "HITL_RESOLUTION"))
    rows, _ = server.run(
        server.parts.store.list_audit_events("default", asked, page=0, size=20, order="oldest")
    )
    assert [row.type for row in rows] == ["HITL", "HITL_GUARD", "HITL_RESOLUTION"]
    assert len({row.correlation_id for row in rows}) == 1
    assert b"Not like this." in rows[-1].body
    assert not any(b"tulip" in row.body.replace(b"No tulip", b"") for row in rows)


def test_control_characters_of_a_held_message_are_forwarded_unchanged(server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            [sent] = await made.send("echo tulip \x00\x1b[31m")
            assert read_metadata(sent.task)["relay_reason"] == "HITL_HELD"
            wait_until_settled(server, decide(server, sent.task.id))
            assert (
                list_artifact_texts(await wait_until_done(made, sent.task.id))[0]
                == "echo tulip \x00\x1b[31m 0"
            )

    asyncio.run(run())


def test_hold_timeout_is_a_setting(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("short")
    with run_holding_server(folder, {"errands": agent.url}, hold_timeout="10m") as server:

        async def run() -> None:
            async with open_sdk_caller(server) as made:
                [sent] = await made.send("echo tulip")
                hold = find_pending_hold(server, sent.task.id)
                server.advance(minutes=11)
                server.sweep()
                assert wait_until_settled(server, hold).status == "EXPIRED"

        asyncio.run(run())
