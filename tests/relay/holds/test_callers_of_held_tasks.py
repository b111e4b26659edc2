"""What callers may do with a task that waits for a person, and what nobody else may."""

import asyncio
from typing import Any

import pytest
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, ListTasksRequest
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from placet.ports.audit_store import AuditFilter
from placet.ports.hold_store import HoldFilter
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding import (
    CANCELED,
    DONE,
    FAILED,
    WORKING,
    decide,
    errand,
    holding_server,
    pending,
    reason,
    settled,
    task_of,
    texts,
)
from tests.relay.traffic.test_pass_through import BINDINGS, Errand
from tests.server.running import RunningServer


def count(server: RunningServer, task_id: str) -> int:
    asked = HoldFilter(task_id=task_id)
    return server.run(server.parts.store.list_holds("default", asked, page=0, size=1))[1]


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_canceling_withdraws_the_approval(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            told = len(agent.executor.texts)
            [sent] = await made.send("echo tulip")
            hold = pending(server, sent.task.id)
            canceled = await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
            assert canceled.status.state == CANCELED
            assert reason(canceled) == {}
            assert settled(server, hold).status == "WITHDRAWN"
            case = server.run(server.parts.store.get_case(hold.case_id))
            assert case is not None
            assert case.status.value == "cancelled"
            assert (await task_of(made, sent.task.id)).status.state == CANCELED
            assert len(agent.executor.texts) == told
            with pytest.raises(TaskNotCancelableError):
                await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))

    asyncio.run(run())


def test_canceling_a_question_cancels_it_with_the_agent(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("ask")
            before, hold = agent.executor.canceled, pending(server, sent.task.id)
            await made.unary.cancel_task(CancelTaskRequest(id=sent.task.id))
            settled(server, hold)
            assert agent.executor.canceled == before + 1

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_nothing_more_is_said_on_a_task_that_waits(server: RunningServer, binding: str, version: str) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            for text in ("ask", "echo tulip"):
                [sent] = await made.send(text)
                for more in ("echo", "echo tulip"):
                    with pytest.raises(UnsupportedOperationError, match="waits for a person"):
                        await made.send(more, task_id=sent.task.id, context_id=sent.task.context_id)
                assert count(server, sent.task.id) == 1

    asyncio.run(run())


def test_a_conversation_goes_on_after_a_held_message(server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip")
            settled(server, decide(server, sent.task.id))
            answered = await task_of(made, sent.task.id)
            [more] = await made.send("echo", context_id=sent.task.context_id)
            assert more.task.context_id == answered.context_id

    asyncio.run(run())


def test_held_tasks_stand_in_the_callers_list_and_in_nobody_elses(server: RunningServer) -> None:
    async def run() -> None:
        other = Errand(f"{server.url}/relay/v1/agents/errands", server.create_key("other"), "JSONRPC", "1.0")
        async with errand(server) as made, other as stranger:
            [request] = await made.send("echo tulip")
            [question] = await made.send("ask")
            listed = {one.id: one for one in (await made.unary.list_tasks(ListTasksRequest())).tasks}
            for sent in (request, question):
                assert listed[sent.task.id].status.state == WORKING
                assert reason(listed[sent.task.id]) == reason(sent.task)
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
        async with errand(server) as made:
            rejected, withdrawn, approved = [(await made.send("echo tulip"))[0].task for _ in range(3)]
            settled(server, decide(server, rejected.id, "reject"))
            await made.unary.cancel_task(CancelTaskRequest(id=withdrawn.id))
            settled(server, decide(server, approved.id))
            listed = {one.id: one for one in (await made.unary.list_tasks(ListTasksRequest())).tasks}
            for sent, state in ((rejected, CANCELED), (withdrawn, CANCELED), (approved, DONE)):
                assert listed[sent.id].status.state == state
                assert reason(listed[sent.id]) == reason(await task_of(made, sent.id))

    asyncio.run(run())


def test_the_same_message_again_meets_the_hold_it_has(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            held: list[Any] = []
            for _ in range(3):
                [sent] = await made.send_as("twice tulip", "message-7")
                held.append(sent.task.id)
            assert len(set(held)) == 1
            assert count(server, held[0]) == 1
            settled(server, decide(server, held[0]))
            assert agent.executor.texts.count("twice tulip") == 1
            [anew] = await made.send_as("twice tulip", "message-7")
            assert anew.task.id != held[0]

    asyncio.run(run())


def test_what_a_later_leg_blocks_fails_with_words(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip nettle")
            settled(server, decide(server, sent.task.id))
            ended = await task_of(made, sent.task.id)
            assert ended.status.state == FAILED
            assert "Block nettle" in ended.status.message.parts[0].text
            assert "echo tulip nettle" not in agent.executor.texts

    asyncio.run(run())


def test_what_another_policy_masks_is_masked_when_it_goes_on(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip and clover")
            settled(server, decide(server, sent.task.id))
            assert (await task_of(made, sent.task.id)).status.state == DONE
            assert "clover" not in agent.executor.texts[-1]
            assert agent.executor.texts[-1].startswith("echo tulip and [MASKED")

    asyncio.run(run())


def test_a_hold_that_nobody_decides_ends_with_its_time(server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip")
            hold = pending(server, sent.task.id)
            server.advance(hours=25)
            server.sweep()
            assert settled(server, hold).status == "EXPIRED"
            ended = await task_of(made, sent.task.id)
            assert ended.status.state == CANCELED
            assert reason(ended)["relay_reason"] == "HITL_REJECTED"
            assert reason(ended)["policy_name"] == "No tulip"
            assert "in time" in ended.status.message.parts[0].text

    asyncio.run(run())


def test_every_step_of_a_hold_is_in_the_audit(server: RunningServer) -> None:
    async def run() -> str:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip")
            settled(server, decide(server, sent.task.id, "reject", "Not like this."))
            return str(sent.task.id)

    asked = AuditFilter(task_id=asyncio.run(run()), types=("HITL", "HITL_GUARD", "HITL_RESOLUTION"))
    rows, _ = server.run(
        server.parts.store.list_audit_events("default", asked, page=0, size=20, order="oldest")
    )
    assert [row.type for row in rows] == ["HITL", "HITL_GUARD", "HITL_RESOLUTION"]
    assert len({row.correlation_id for row in rows}) == 1
    assert b"Not like this." in rows[-1].body
    assert not any(b"tulip" in row.body.replace(b"No tulip", b"") for row in rows)


def test_a_text_is_shown_that_no_store_could_keep(server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            [sent] = await made.send("echo tulip \x00\x1b[31m")
            assert reason(sent.task)["relay_reason"] == "HITL_HELD"
            settled(server, decide(server, sent.task.id))
            assert texts(await task_of(made, sent.task.id))[0] == "echo tulip \x00\x1b[31m 0"

    asyncio.run(run())


def test_the_operator_says_how_long_a_message_waits(
    agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("short")
    with holding_server(folder, {"errands": agent.url}, hold_timeout="10m") as server:

        async def run() -> None:
            async with errand(server) as made:
                [sent] = await made.send("echo tulip")
                hold = pending(server, sent.task.id)
                server.advance(minutes=11)
                server.sweep()
                assert settled(server, hold).status == "EXPIRED"

        asyncio.run(run())
