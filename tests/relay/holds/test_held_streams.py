"""A held message that was streamed: told as waiting, kept open, and ended with what a person decided."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest, SubscribeToTaskRequest, Task

from placet.relay.hold import decode_hold_body
from tests.relay.a2a.raw_agent import RawAgent, answer_with, build_head, run_raw_agent, stay_silent
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import (
    CANCELED,
    DONE,
    WORKING,
    decide,
    find_pending_hold,
    list_artifact_texts,
    open_sdk_caller,
    read_metadata,
    run_holding_server,
    wait_until_settled,
)
from tests.relay.sample_records import build_message_call
from tests.relay.traffic.test_pass_through import BINDINGS, SdkCaller
from tests.relay.traffic.test_withheld_streams import (
    WORDS,
    PausedStream,
    build_first_event,
    build_status,
    build_words,
    frame_events,
)
from tests.server.running import RunningServer

PATIENCE_S = 60


class EventStream:
    """The events of a stream, one by one."""

    def __init__(self, events: Any) -> None:
        self._events = aiter(events)

    async def next(self) -> Any:
        return await asyncio.wait_for(anext(self._events), PATIENCE_S)

    async def rest(self) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return [event async for event in self._events]

        return await asyncio.wait_for(all_of_them(), PATIENCE_S)


async def start_held_stream(made: SdkCaller, text: str) -> tuple[EventStream, list[Any]]:
    """A stream with its events up to the one that says why it waits."""
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    stream = EventStream(made.streaming.send_message(request))
    seen = [await stream.next()]
    while not (seen[-1].HasField("task") and read_metadata(seen[-1].task)):
        seen.append(await stream.next())
    return stream, seen


def find_last_task(events: list[Any]) -> Task:
    return [event.task for event in events if event.HasField("task")][-1]


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
@pytest.mark.parametrize("flower", ["tulip", "marigold"])
def test_a_held_stream_ends_with_the_answer_once_it_is_approved(
    server: RunningServer, binding: str, version: str, flower: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            stream, seen = await start_held_stream(made, f"echo {flower}")
            held = find_last_task(seen)
            assert held.status.state == WORKING
            assert read_metadata(held)["policy_name"] == f"No {flower}"
            assert not any(event.HasField("artifact_update") for event in seen)
            decide(server, held.id)
            answered = find_last_task(await stream.rest())
            assert answered.id == held.id
            assert answered.status.state == DONE
            assert list_artifact_texts(answered) == [f"echo {flower} {number}" for number in range(3)]
            assert read_metadata(answered) == {}

    asyncio.run(run())


def test_a_held_stream_ends_with_the_refusal(agent: SdkAgent, server: RunningServer) -> None:
    async def run() -> None:
        async with open_sdk_caller(server) as made:
            stream, seen = await start_held_stream(made, "stream tulip")
            decide(server, find_last_task(seen).id, "reject")
            ended = find_last_task(await stream.rest())
            assert ended.status.state == CANCELED
            assert read_metadata(ended)["relay_reason"] == "HITL_REJECTED"
            assert "stream tulip" not in agent.executor.texts

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_subscriber_of_a_held_task_gets_the_outcome(
    server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send("echo tulip")
            stream = EventStream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
            assert read_metadata((await stream.next()).task)["relay_reason"] == "HITL_HELD"
            decide(server, sent.task.id)
            answered = find_last_task(await stream.rest())
            assert list_artifact_texts(answered) == ["echo tulip 0", "echo tulip 1", "echo tulip 2"]

    asyncio.run(run())


@pytest.mark.parametrize(("binding", "version"), BINDINGS)
def test_subscriber_of_a_held_task_gets_later_events(
    agent: SdkAgent, server: RunningServer, binding: str, version: str
) -> None:
    async def run() -> None:
        agent.executor.go_on.clear()
        async with open_sdk_caller(server, binding, version) as made:
            [sent] = await made.send("late task tulip", return_immediately=True)
            stream = EventStream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
            assert read_metadata((await stream.next()).task)["relay_reason"] == "HITL_HELD"
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
def test_subscriber_gets_the_agents_refusal(tmp_path: Path, refusal: bytes) -> None:
    task = {"id": "theirs", "contextId": "there", "status": {"state": "TASK_STATE_WORKING"}}
    works = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()

    async def behave(agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(agent.requests[-1][1])["method"]
        await answer_with(200, works if asked == "SendMessage" else refusal)(agent, reader, writer)

    with run_raw_agent() as raw, run_holding_server(tmp_path, {"errands": raw.url}) as server:
        raw.behave = behave
        with server.client(server.api_key) as client:
            client.headers["A2A-Version"] = "1.0"
            sent = client.post("/relay/v1/agents/errands", json=build_message_call("tulip")).json()["result"][
                "task"
            ]
            call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": sent["id"]}}
            with client.stream("POST", "/relay/v1/agents/errands", json=call) as response:
                lines = response.iter_lines()
                assert "HITL_HELD" in next(lines)
                decide(server, sent["id"])
                last = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")][-1]
    assert json.loads(last)["error"]["code"] == (-32004 if refusal else -32006)


def test_subscriber_gets_decisions_made_on_another_server(agent: SdkAgent, tmp_path: Path) -> None:
    agents = {"errands": agent.url}
    with run_holding_server(tmp_path, agents) as server, run_holding_server(tmp_path, agents) as another:

        async def run() -> None:
            async with open_sdk_caller(server) as made:
                [sent] = await made.send("echo tulip")
                stream = EventStream(made.streaming.subscribe(SubscribeToTaskRequest(id=sent.task.id)))
                assert read_metadata((await stream.next()).task)["relay_reason"] == "HITL_HELD"
                wait_until_settled(another, decide(another, sent.task.id))
                assert find_last_task(await stream.rest()).status.state == DONE

        asyncio.run(run())


def test_rest_of_a_stream_reaches_a_later_subscriber_once_approved(tmp_path: Path) -> None:
    words = [*WORDS, "one marigold, ", "and so on."]
    events = build_words("theirs", words)
    with run_raw_agent() as raw, run_holding_server(tmp_path, {"errands": raw.url}) as server:
        raw.behave = gate = PausedStream(
            frame_events(build_first_event("theirs"), *events[:7]),
            frame_events(*events[7:], build_status("theirs", "COMPLETED")),
        )
        call = build_message_call("hi") | {"method": "SendStreamingMessage", "id": 7}
        with server.client(server.api_key) as client:
            client.headers["A2A-Version"] = "1.0"
            told = []
            with client.stream("POST", "/relay/v1/agents/errands", json=call) as response:
                for line in response.iter_lines():
                    told.append(line)
                    if "many, many words" in line:
                        gate.open.set()
                    if "HITL_HELD" in line:
                        break
            assert "one marigold" not in "".join(told)
            hold = find_pending_hold(server, "theirs")
            released = sum(line.startswith("data: ") for line in told) - 1
            body = decode_hold_body(hold)
            assert f"The caller has already got {released} events" in body.summary
            assert body.text == "".join(words)
            wait_until_settled(server, decide(server, "theirs"))
            call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "theirs"}}
            later = client.post("/relay/v1/agents/errands", json=call).text
    [task] = [json.loads(line[6:])["result"]["task"] for line in later.splitlines() if line[:5] == "data:"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(part["text"] for part in task["artifacts"][0]["parts"]) == "".join(words)


def test_early_return_does_not_end_a_held_stream(
    agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("patient")
    with run_holding_server(folder, {"errands": agent.url}, early_return="0.2s") as server:

        async def run() -> None:
            async with open_sdk_caller(server) as made:
                stream, seen = await start_held_stream(made, "echo tulip")
                agent.executor.go_on.clear()
                [late] = await made.send("late task")
                agent.executor.go_on.set()
                assert read_metadata(late.task) == {"relay_reason": "TIMEOUT"}  # the stream is as old
                held = find_last_task(seen)
                wait_until_settled(server, decide(server, held.id))
                assert find_last_task(await stream.rest()).status.state == DONE

        asyncio.run(run())


@pytest.mark.parametrize("policies", [True, False], ids=["judged as a whole", "event by event"])
def test_connection_to_the_agent_closes_while_its_stream_is_held(tmp_path: Path, policies: bool) -> None:
    task = {"id": "theirs", "contextId": "there", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()
    relay: dict[str, Any] = {} if policies else {"policies": None}
    with run_raw_agent() as raw, run_holding_server(tmp_path, {"errands": raw.url}, **relay) as server:
        raw.behave = stay_silent(
            build_head(200, content_type="text/event-stream") + b"data: " + asked + b"\n\n"
        )
        call = build_message_call("hi") | {"method": "SendStreamingMessage"}
        with (
            server.client(server.api_key) as client,
            client.stream(
                "POST", "/relay/v1/agents/errands", json=call, headers={"A2A-Version": "1.0"}
            ) as response,
        ):
            lines = response.iter_lines()  # closing the response leaves the stream
            assert "HITL_HELD_AGENT_INPUT_REQUIRED" in next(lines)
            assert raw.hung_up.wait(60)
            assert next(lines) == ""
