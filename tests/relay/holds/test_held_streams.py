"""A held message that was streamed: told as waiting, kept open, and ended with what a person decided."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest, SubscribeToTaskRequest, Task

from tests.relay.a2a.raw_agent import RawAgent, answering, head, raw_agent, silent
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding import (
    CANCELED,
    DONE,
    WORKING,
    decide,
    errand,
    holding_server,
    reason,
    settled,
    task_of,
    texts,
)
from tests.relay.things import message_of
from tests.relay.traffic.test_pass_through import BINDINGS, Errand
from tests.server.running import RunningServer

PATIENCE_S = 60


class Stream:
    """The events of a stream, one by one."""

    def __init__(self, events: Any) -> None:
        self._events = aiter(events)

    async def next(self) -> Any:
        return await asyncio.wait_for(anext(self._events), PATIENCE_S)

    async def rest(self) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return [event async for event in self._events]

        return await asyncio.wait_for(all_of_them(), PATIENCE_S)


async def begun(made: Errand, text: str) -> tuple[Stream, list[Any]]:
    """A stream with its events up to the one that says why it waits."""
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    stream = Stream(made.streaming.send_message(request))
    seen = [await stream.next()]
    while not (seen[-1].HasField("task") and reason(seen[-1].task)):
        seen.append(await stream.next())
    return stream, seen


def last_task(events: list[Any]) -> Task:
    return [event.task for event in events if event.HasField("task")][-1]


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
@pytest.mark.parametrize("flower", ["tulip", "marigold"])
def test_a_held_stream_ends_with_the_answer_once_it_is_approved(
    server: RunningServer, binding: str, version: str, flower: str
) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            stream, seen = await begun(made, f"echo {flower}")
            held = last_task(seen)
            assert held.status.state == WORKING
            assert reason(held)["policy_name"] == f"No {flower}"
            assert not any(event.HasField("artifact_update") for event in seen)
            decide(server, held.id)
            answered = last_task(await stream.rest())
            assert answered.id == held.id
            assert answered.status.state == DONE
            assert texts(answered) == [f"echo {flower} {number}" for number in range(3)]
            assert reason(answered) == {}

    asyncio.run(run())


def test_a_held_stream_ends_with_the_refusal(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with errand(server) as made:
            stream, seen = await begun(made, "stream tulip")
            decide(server, last_task(seen).id, "reject")
            ended = last_task(await stream.rest())
            assert ended.status.state == CANCELED
            assert reason(ended)["relay_reason"] == "HITL_REJECTED"
            assert "stream tulip" not in agent.executor.texts

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_whoever_subscribes_to_a_held_task_is_told_what_became_of_it(
    server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with errand(server, binding, version) as made:
            [sent] = await made.send("echo tulip")
            stream = Stream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
            assert reason((await stream.next()).task)["relay_reason"] == "HITL_HELD"
            decide(server, sent.task.id)
            answered = last_task(await stream.rest())
            assert texts(answered) == ["echo tulip 0", "echo tulip 1", "echo tulip 2"]

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_whoever_subscribes_to_a_held_task_hears_its_agent_go_on(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        agent.executor.go_on.clear()
        async with errand(server, binding, version) as made:
            [sent] = await made.send("late task tulip", return_immediately=True)
            stream = Stream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
            assert reason((await stream.next()).task)["relay_reason"] == "HITL_HELD"
            decide(server, sent.task.id)
            assert (await stream.next()).task.id == sent.task.id
            agent.executor.go_on.set()
            told = await stream.rest()
            assert sum(one.HasField("artifact_update") for one in told) == 3
            assert told[-1].status_update.status.state == DONE

    asyncio.run(run())


@pytest.mark.parametrize(
    "refusal", [b'{"jsonrpc":"2.0","id":1,\n"error":{"code":-32004,"message":"Over."}}', b""]
)
def test_whoever_cannot_hear_the_agent_go_on_is_told_why(tmp_path: Path, refusal: bytes) -> None:
    task = {"id": "theirs", "contextId": "there", "status": {"state": "TASK_STATE_WORKING"}}
    works = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()

    async def behave(agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(agent.requests[-1][1])["method"]
        await answering(200, works if asked == "SendMessage" else refusal)(agent, reader, writer)

    with raw_agent() as raw, holding_server(tmp_path, {"errands": raw.url}) as server:
        raw.behave = behave
        with server.client(server.api_key) as client:
            client.headers["A2A-Version"] = "1.0"
            sent = client.post("/relay/v1/agents/errands", json=message_of("tulip")).json()["result"]["task"]
            call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": sent["id"]}}
            with client.stream("POST", "/relay/v1/agents/errands", json=call) as response:
                lines = response.iter_lines()
                assert "HITL_HELD" in next(lines)
                decide(server, sent["id"])
                last = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")][-1]
    assert json.loads(last)["error"]["code"] == (-32004 if refusal else -32006)


def test_whoever_subscribes_at_one_server_is_told_what_was_done_at_another(
    agent: SdkAgent, tmp_path: Path
) -> None:
    agents = {"errands": agent.url}
    with holding_server(tmp_path, agents) as server, holding_server(tmp_path, agents) as another:

        async def run() -> None:
            async with errand(server) as made:
                [sent] = await made.send("echo tulip")
                stream = Stream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
                assert reason((await stream.next()).task)["relay_reason"] == "HITL_HELD"
                settled(another, decide(another, sent.task.id))
                assert last_task(await stream.rest()).status.state == DONE

        asyncio.run(run())


def test_a_held_stream_closes_when_its_caller_has_waited_long_enough(
    agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("impatient")
    with holding_server(folder, {"errands": agent.url}, early_return="1s") as server:

        async def run() -> None:
            async with errand(server) as made:
                stream, seen = await begun(made, "echo tulip")
                assert await stream.rest() == []
                task_id = last_task(seen).id
                settled(server, decide(server, task_id))
                assert (await task_of(made, task_id)).status.state == DONE

        asyncio.run(run())


@pytest.mark.parametrize("policies", [True, False], ids=["judged as a whole", "event by event"])
def test_an_agent_is_let_go_while_a_person_looks_at_what_it_streamed(tmp_path: Path, policies: bool) -> None:
    task = {"id": "theirs", "contextId": "there", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()
    relay = {} if policies else {"policies": None}
    with raw_agent() as raw, holding_server(tmp_path, {"errands": raw.url}, **relay) as server:
        raw.behave = silent(head(200, content_type="text/event-stream") + b"data: " + asked + b"\n\n")
        call = message_of("hi") | {"method": "SendStreamingMessage"}
        with (
            server.client(server.api_key) as client,
            client.stream(
                "POST", "/relay/v1/agents/errands", json=call, headers={"A2A-Version": "1.0"}
            ) as response,
        ):
            lines = response.iter_lines()  # whoever lets go of it leaves the stream
            assert "HITL_HELD_AGENT_INPUT_REQUIRED" in next(lines)
            assert raw.hung_up.wait(60)
            assert next(lines) == ""
