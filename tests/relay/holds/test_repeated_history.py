"""What an agent repeats of the caller in `history`: only what the relay itself forwarded is not inspected."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.holds.holding_server import (
    build_policy_draft,
    decide,
    find_pending_hold,
    run_holding_server,
    wait_until_settled,
)
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S

WORKING = "TASK_STATE_WORKING"
SPOOFED = {"messageId": "s", "role": "ROLE_USER", "parts": [{"text": "marigold 7719"}]}
POLICIES = [
    build_policy_draft("No marigold", "marigold", "responseFromSink", "responseToSource"),
    build_policy_draft("Mask clover", "clover", "responseFromSink", action="MASK"),
]


@pytest.fixture(scope="module")
def server(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("relay")
    (folder / "own.json").write_text(json.dumps(POLICIES))
    policies = str(folder / "own.json")
    with run_holding_server(folder, {"raw": raw_agent.url}, policies=policies) as found:
        yield found


def build_message(message_id: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def build_task(task_id: str, *history: Any, state: str = "TASK_STATE_COMPLETED", said: str = "done") -> Any:
    artifact = {"artifactId": "a", "parts": [{"text": said}]}
    context = {"id": task_id, "contextId": f"context of {task_id}"}
    return {**context, "status": {"state": state}, "artifacts": [artifact], "history": list(history)}


def answer(raw_agent: RawAgent, result: Any) -> None:
    document = {"jsonrpc": "2.0", "id": 1, "result": result}
    raw_agent.behave = answer_with(200, json.dumps(document).encode())


def stream(raw_agent: RawAgent, *results: Any) -> None:
    events = [f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in results]
    raw_agent.behave = answer_with(200, "".join(events).encode(), "text/event-stream")


def call(server: RunningServer, method: str, *, version: str = "1.0", **params: Any) -> Any:
    return httpx.post(
        f"{server.url}/relay/v1/agents/raw",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"Authorization": f"Bearer {server.api_key}", "A2A-Version": version},
        timeout=PATIENCE_S,
    )


def is_held(response: httpx.Response) -> bool:
    return "HITL_HELD" in response.text


def test_agents_words_labelled_as_the_users_are_held(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m1", "water the plants")
    answer(raw_agent, {"task": build_task("t1", sent, SPOOFED)})
    response = call(server, "SendMessage", message=sent)
    assert is_held(response)
    assert "7719" not in response.text
    hold = find_pending_hold(server, "t1")
    assert hold.policy_name == "No marigold"
    assert b"7719" in hold.body


def test_the_callers_own_words_are_not_held(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m2", "plant a marigold", metadata={"place": 3})
    echoed = {**sent, "taskId": "t2", "contextId": "context of t2", "metadata": {"place": 3.0}}
    answer(raw_agent, {"task": build_task("t2", echoed)})
    assert not is_held(call(server, "SendMessage", message=sent))
    answer(raw_agent, build_task("t2", echoed))
    assert not is_held(call(server, "GetTask", id="t2"))
    answer(raw_agent, {"tasks": [build_task("t2", echoed)], "totalSize": 1})
    assert "plant a marigold" in call(server, "ListTasks").text


def test_words_of_one_task_are_inspected_in_another(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m3", "plant a marigold")
    answer(raw_agent, {"task": build_task("t3", sent)})
    assert not is_held(call(server, "SendMessage", message=sent))
    other = build_message("m4", "water it")
    answer(raw_agent, {"task": build_task("t4", sent, other)})
    assert is_held(call(server, "SendMessage", message=other))


def test_every_message_of_a_task_is_recognized(raw_agent: RawAgent, server: RunningServer) -> None:
    first = build_message("m5", "plant a marigold")
    answer(raw_agent, {"task": build_task("t5", first, state=WORKING)})
    assert not is_held(call(server, "SendMessage", message=first))
    second = build_message("m6", "and another marigold", taskId="t5")
    answer(raw_agent, {"task": build_task("t5", first, second)})
    assert not is_held(call(server, "SendMessage", message=second))
    answer(raw_agent, build_task("t5", first, {**second, "parts": [{"text": "and a third marigold"}]}))
    assert is_held(call(server, "GetTask", id="t5"))


@pytest.mark.parametrize(
    "change",
    [
        {"parts": [{"text": "plant a marigold", "metadata": {"x": "marigold"}}]},
        {"metadata": {"note": "marigold 7719"}},
        {"messageId": "marigold 7719"},
        {"contextId": "marigold 7719"},
        {"role": "marigold"},
        {"kind": "marigold"},
        {"message_id": "marigold"},
    ],
)
def test_a_repeated_message_that_was_changed_is_held(
    raw_agent: RawAgent, server: RunningServer, change: dict[str, Any]
) -> None:
    name = json.dumps(change)
    sent = build_message(name.replace("marigold", ""), "plant a marigold")
    answer(raw_agent, {"task": build_task(name.replace("marigold", ""), {**sent, **change})})
    assert is_held(call(server, "SendMessage", message=sent))


def test_words_in_a_stream_are_held(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m7", "water the plants")
    done = {"statusUpdate": {"taskId": "t7", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
    stream(raw_agent, {"task": build_task("t7", sent, SPOOFED, state=WORKING)}, done)
    found: list[str] = []
    with httpx.stream(
        "POST",
        f"{server.url}/relay/v1/agents/raw",
        json={"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": sent}},
        headers={"Authorization": f"Bearer {server.api_key}", "A2A-Version": "1.0"},
        timeout=PATIENCE_S,
    ) as response:
        for line in response.iter_lines():
            found.append(line)
            if "HITL_HELD" in line:
                break
    assert "7719" not in "".join(found)
    assert find_pending_hold(server, "t7").policy_name == "No marigold"


def test_the_callers_own_words_in_a_stream_are_not_held(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m12", "plant a marigold")
    done = {"statusUpdate": {"taskId": "t12", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
    stream(raw_agent, {"task": build_task("t12", sent, state=WORKING)}, done)
    response = call(server, "SendStreamingMessage", message=sent)
    assert not is_held(response)
    assert "plant a marigold" in response.text
    assert "TASK_STATE_COMPLETED" in response.text


def test_spoofed_words_are_masked(raw_agent: RawAgent, server: RunningServer) -> None:
    sent = build_message("m8", "cut the clover")
    spoofed = build_message("s8", "clover of the agent")
    answer(raw_agent, {"task": build_task("t8", sent, spoofed)})
    history = call(server, "SendMessage", message=sent).json()["result"]["task"]["history"]
    assert history[0]["parts"] == [{"text": "cut the clover"}]
    assert "clover" not in history[1]["parts"][0]["text"]


def test_history_in_another_dialect_is_recognized(raw_agent: RawAgent, server: RunningServer) -> None:
    parts = [{"text": "plant a marigold"}, {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"}]
    sent = {"messageId": "m9", "role": "ROLE_USER", "parts": parts}
    answer(raw_agent, {"task": build_task("t9", sent)})
    assert not is_held(call(server, "SendMessage", message=sent))
    old_parts = [
        {"kind": "text", "text": "plant a marigold"},
        {"kind": "file", "file": {"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}},
    ]
    echoed = {"kind": "message", "messageId": "m9", "role": "user", "parts": old_parts}
    old_task = {"kind": "task", "id": "t9", "contextId": "context of t9", "history": [echoed]}
    answer(raw_agent, {**old_task, "status": {"state": "completed"}})
    assert not is_held(call(server, "tasks/get", version="0.3", id="t9"))


def test_a_message_that_was_held_is_recognized_afterwards(raw_agent: RawAgent, tmp_path: Path) -> None:
    policies = [
        build_policy_draft("No tulip", "tulip", "requestToSink"),
        build_policy_draft("No marigold", "marigold", "responseFromSink"),
    ]
    (tmp_path / "own.json").write_text(json.dumps(policies))
    with run_holding_server(tmp_path, {"raw": raw_agent.url}, policies=str(tmp_path / "own.json")) as server:
        sent = build_message("m10", "a tulip")
        task_id = call(server, "SendMessage", message=sent).json()["result"]["task"]["id"]
        answer(raw_agent, {"task": build_task("agent-10", {**sent, "taskId": "agent-10"}, state=WORKING)})
        wait_until_settled(server, decide(server, task_id))
        more = build_message("m11", "a marigold", taskId=task_id)
        answer(
            raw_agent, {"task": build_task("agent-10", sent, {**more, "taskId": "agent-10"}, state=WORKING)}
        )
        assert not is_held(call(server, "SendMessage", message=more))
        answer(raw_agent, build_task("agent-10", sent, more, SPOOFED))
        assert is_held(call(server, "GetTask", id=task_id))


def test_an_approved_value_is_not_held_again_but_another_one_is(raw_agent: RawAgent, tmp_path: Path) -> None:
    legs = ("requestFromSource", "requestToSink", "responseFromSink", "responseToSource")
    policies = [build_policy_draft("SSNs", r"\d{3}-\d{2}-\d{4}", *legs)]
    (tmp_path / "own.json").write_text(json.dumps(policies))
    with run_holding_server(tmp_path, {"raw": raw_agent.url}, policies=str(tmp_path / "own.json")) as server:
        sent = build_message("ssn", "My SSN is 536-22-8764")
        task_id = call(server, "SendMessage", message=sent).json()["result"]["task"]["id"]
        said = "536-22-8764 is on file."
        answer(raw_agent, {"task": build_task("agent-ssn", sent, state=WORKING, said=said)})
        wait_until_settled(server, decide(server, task_id))
        answer(raw_agent, build_task("agent-ssn", sent, state=WORKING, said=said))
        found = call(server, "GetTask", id=task_id)
        assert not is_held(found)
        assert said in found.text
        answer(raw_agent, build_task("agent-ssn", sent, said=f"{said} 536-22-8765 is not."))
        assert is_held(call(server, "GetTask", id=task_id))
        answer(raw_agent, {"task": build_task("other-ssn", said=said)})
        assert is_held(call(server, "SendMessage", message=build_message("other", "and mine?")))
