"""An agent that asks for input in another spelling, which some callers read, is held as any other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.relay.a2a.dialects import STATES, parse_state
from placet.relay.tasks.relay_tasks import may_ask_for_input
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.holds.holding_server import find_pending_hold, run_holding_server
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S

SPELLED = [6, 6.0, "6", "InputRequired", "INPUT_REQUIRED", "Input-Required", "task_state_input_required"]


@pytest.fixture(scope="module")
def server(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("relay")
    with run_holding_server(folder, {"raw": raw_agent.url}, policies=None) as found:
        yield found


def asking(task_id: str, state: Any) -> dict[str, Any]:
    message = {"role": "ROLE_AGENT", "messageId": "q", "parts": [{"text": "Which account?"}]}
    return {"id": task_id, "contextId": "c", "status": {"state": state, "message": message}}


def call(server: RunningServer, method: str, **params: Any) -> httpx.Response:
    return httpx.post(
        f"{server.url}/relay/v1/agents/raw",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"Authorization": f"Bearer {server.api_key}", "A2A-Version": "1.0"},
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize("state", SPELLED)
def test_input_required_is_held_in_every_spelling(
    raw_agent: RawAgent, server: RunningServer, state: Any
) -> None:
    task_id = f"whole-{json.dumps(state)}"
    raw_agent.behave = answer_with(
        200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": asking(task_id, state)}}).encode()
    )
    message = {"messageId": task_id, "role": "ROLE_USER", "parts": [{"text": "pay"}]}
    told = call(server, "SendMessage", message=message)
    assert told.json()["result"]["task"]["metadata"] == {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}
    assert "Which account" not in told.text
    assert find_pending_hold(server, task_id).detection_source == "AGENT_INPUT_REQUIRED"


@pytest.mark.parametrize("state", SPELLED)
def test_input_required_is_held_in_a_stream_without_policies(
    raw_agent: RawAgent, server: RunningServer, state: Any
) -> None:
    task_id = f"stream-{json.dumps(state)}"
    working = {"task": {"id": task_id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    asked = asking(task_id, state)
    update = {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": asked["status"]}}
    stream = "".join(
        f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in (working, update)
    )
    raw_agent.behave = answer_with(200, stream.encode(), "text/event-stream")
    message = {"messageId": task_id, "role": "ROLE_USER", "parts": [{"text": "pay"}]}
    with httpx.stream(
        "POST",
        f"{server.url}/relay/v1/agents/raw",
        json={"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}},
        headers={"Authorization": f"Bearer {server.api_key}", "A2A-Version": "1.0"},
        timeout=PATIENCE_S,
    ) as told:
        lines: list[str] = []
        for line in told.iter_lines():
            lines.append(line)
            if "HITL_HELD_AGENT_INPUT_REQUIRED" in line:
                break
    assert "HITL_HELD_AGENT_INPUT_REQUIRED" in lines[-1]
    assert not any("Which account" in line for line in lines)
    find_pending_hold(server, task_id)


def test_states_are_parsed_in_every_spelling() -> None:
    assert {word: parse_state(word) for word in STATES} == STATES
    assert [parse_state(number) for number in (1, 2, 3, 4, 5, 7, 8)] == [
        *("submitted", "working", "completed", "failed", "canceled", "rejected", "auth-required")
    ]
    strange = ["", "sleeping", "99", 99, -1, 2.5, float("inf"), "nan"]
    assert [parse_state(word) for word in strange] == ["unknown"] * len(strange)
    nothing: list[Any] = [None, True, {}, []]
    assert [parse_state(word) for word in nothing] == [None] * 4


def test_events_that_may_require_input_are_parsed() -> None:
    for state in SPELLED:
        assert may_ask_for_input(json.dumps(asking("t", state)).encode())
    assert may_ask_for_input(b'{"state"\n:\t"6"}')
    assert not may_ask_for_input(b'{"artifactUpdate": {"state": "TASK_STATE_WORKING"}}')


@pytest.mark.parametrize("state", ["TASK_STATE_INPUT_REQUIRED", 6])
def test_a_question_in_a_list_opens_an_approval(
    raw_agent: RawAgent, server: RunningServer, state: Any
) -> None:
    task_id = f"listed-{state}"
    working = {"id": task_id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    raw_agent.behave = answer_with(
        200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": working}}).encode()
    )
    message = {"messageId": task_id, "role": "ROLE_USER", "parts": [{"text": "pay"}]}
    assert "relay_reason" not in call(server, "SendMessage", message=message).text
    foreign = asking("of-somebody-else", state)
    listed = {"tasks": [foreign, asking(task_id, state)], "totalSize": 2, "nextPageToken": ""}
    raw_agent.behave = answer_with(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": listed}).encode())
    for _ in range(2):
        told = call(server, "ListTasks", contextId="c")
        [task] = [one for one in told.json()["result"]["tasks"] if one["id"] == task_id]
        assert task["metadata"] == {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}
        assert "Which account" not in told.text
        assert "of-somebody-else" not in told.text
    hold = find_pending_hold(server, task_id)
    assert (hold.detection_source, hold.task_id) == ("AGENT_INPUT_REQUIRED", task_id)
