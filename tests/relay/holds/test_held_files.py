"""Files that no policy can read wait for a person, wherever a policy could have stopped what is in them."""

import base64
import gzip
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.relay.hold import decode_hold_body
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import answer_with, run_raw_agent
from tests.relay.a2a.sdk_agent import SECRET, SdkAgent
from tests.relay.holds.holding_server import build_policy_draft, decide, find_pending_hold, wait_until_settled
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00 536-22-8764").decode()
OTHER = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00 something else").decode()
PAGE = base64.b64encode(b"%PDF-1.4\n(5) Tj (36-22-8764) Tj").decode()


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("files")
    listed = [
        build_policy_draft(
            "No numbers", r"\d{3}-\d{2}-\d{4}", "requestFromSource", "requestToSink", "responseToSource"
        ),
    ]
    (folder / "policies.json").write_text(json.dumps(listed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERRANDS_CREDENTIAL", SECRET)
        known: dict[str, Any] = {"url": agent.url, "credentials": {"Authorization": "ERRANDS_CREDENTIAL"}}
        settings = RelaySettings(
            agents={
                "errands": AgentSettings(**known),
                "painter": AgentSettings(**known, unreadable_files="pass"),
                "clerk": AgentSettings(**known, input_required="pass"),
            },
            callers={"acme": CallerSettings(agents=("errands", "painter", "clerk"))},
            policies=str(folder / "policies.json"),
        )
        with running(folder, relay=settings) as found:
            yield found


def send(
    server: RunningServer,
    message_id: str,
    *parts: dict[str, Any],
    agent: str = "errands",
    task_id: str | None = None,
) -> dict[str, Any]:
    """The task that comes of a message with these parts."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": list(parts)}
    named = message if task_id is None else {**message, "taskId": task_id}
    found: dict[str, Any] = call_agent(server, "SendMessage", {"message": named}, agent)["task"]
    return found


def call_agent(
    server: RunningServer, method: str, params: dict[str, Any], agent: str = "errands"
) -> dict[str, Any]:
    response = httpx.post(
        f"{server.url}/relay/v1/agents/{agent}",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"Authorization": f"Bearer {server.api_key}", "A2A-Version": "1.0"},
        timeout=PATIENCE_S,
    )
    found: dict[str, Any] = response.json()["result"]
    return found


@pytest.mark.parametrize(
    "part",
    [
        {"raw": PICTURE, "mediaType": "image/png", "filename": "scan.png"},
        {"raw": PAGE, "mediaType": "text/plain", "filename": "letter.txt"},
        {"url": f"data:image/png;base64,{PICTURE}"},
        {"text": f"look: ![scan](data:image/png;base64,{PICTURE}) and tell"},
        {"data": {"page": f"<img src='DATA:application/pdf;BASE64,{PAGE}'>"}},
        {"text": f"unpack {PAGE}"},
        {"text": f"unpack {base64.b64encode(gzip.compress(b'536-22-8764', mtime=0)).decode()} please"},
        {"text": base64.encodebytes(bytes(range(128, 256)) * 8).decode()},
        {"raw": base64.b64encode("536-22-8764".encode("utf-16")).decode(), "filename": "a.txt"},
    ],
)
def test_unreadable_file_is_held(agent: SdkAgent, server: RunningServer, part: dict[str, Any]) -> None:
    reached = len(agent.executor.texts)
    task = send(server, f"file-{uuid.uuid4()}", {"text": "echo this"}, part)
    assert task["metadata"]["relay_reason"] == "HITL_HELD"
    assert task["metadata"]["policy_name"] == "No numbers"
    assert len(agent.executor.texts) == reached
    found = server.run(server.parts.store.get_case_and_offer(find_pending_hold(server, task["id"]).case_id))
    assert found is not None
    held = found[1].context["held_message"]
    assert held["files"]
    assert held["unchecked"] == ["No numbers: the message contains a file that is not text"]


def test_an_approved_file_goes_on_and_is_not_held_again(agent: SdkAgent, server: RunningServer) -> None:
    task = send(server, "approved", {"text": "echo a picture"}, {"raw": PICTURE, "mediaType": "image/png"})
    wait_until_settled(server, decide(server, task["id"]))
    told = call_agent(server, "GetTask", {"id": task["id"]})
    assert told["status"]["state"] == "TASK_STATE_COMPLETED"
    assert agent.executor.texts.count("echo a picture") == 1


def test_only_the_approved_file_passes_later_in_its_task(server: RunningServer) -> None:
    task = send(server, "chat", {"text": "ask"}, {"raw": PICTURE}, agent="clerk")
    wait_until_settled(server, decide(server, task["id"]))
    told = call_agent(server, "GetTask", {"id": task["id"]}, "clerk")
    assert told["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    held = send(server, "more", {"text": "ask"}, {"raw": OTHER}, agent="clerk", task_id=task["id"])
    assert held["metadata"]["relay_reason"] == "HITL_HELD"
    wait_until_settled(server, decide(server, task["id"]))
    again = send(server, "again", {"text": "ask"}, {"raw": PICTURE}, agent="clerk", task_id=task["id"])
    assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


def test_text_in_an_address_within_a_text_is_read(agent: SdkAgent, server: RunningServer) -> None:
    reached = len(agent.executor.texts)
    note = base64.b64encode(b"the number is 536-22-8764").decode()
    held = send(server, "within", {"text": f"echo [note](data:text/plain;base64,{note})"})
    assert held["metadata"]["relay_reason"] == "HITL_HELD"
    assert len(agent.executor.texts) == reached
    harmless = base64.b64encode(b"good morning to all of you").decode()
    task = send(server, "harmless", {"text": f"echo [note](data:text/plain;base64,{harmless})"})
    assert "relay_reason" not in task.get("metadata", {})


@pytest.mark.parametrize(
    "written", [base64.b64encode(b"my number is 536-22-8764").decode(), "53\u200b6-22-8764"]
)
def test_a_reviewer_sees_how_it_reads_what_was_found(server: RunningServer, written: str) -> None:
    task = send(server, f"reads {len(written)}", {"text": f"echo {written}"})
    hold = find_pending_hold(server, task["id"])
    found = server.run(server.parts.store.get_case_and_offer(hold.case_id))
    assert found is not None
    [text] = found[1].context["held_message"]["texts"]
    [mark] = text["excerpts"][0]["marks"]
    assert mark["entity"].startswith("REGEX → ")
    assert mark["entity"].endswith("536-22-8764")
    matched = decode_hold_body(hold).matched
    assert matched is not None
    assert matched.endswith("536-22-8764")


def test_an_agent_that_works_with_pictures_may_get_them_unread(
    agent: SdkAgent, server: RunningServer
) -> None:
    task = send(server, "painted", {"text": "echo paint"}, {"raw": PICTURE}, agent="painter")
    assert "relay_reason" not in task.get("metadata", {})
    assert agent.executor.texts.count("echo paint") == 1
    held = send(server, "told", {"text": "echo 536-22-8764"}, {"raw": PICTURE}, agent="painter")
    assert held["metadata"]["relay_reason"] == "HITL_HELD"


def test_a_picture_in_a_stream_is_held_and_shown_once_it_is_approved(tmp_path: Path) -> None:
    ids = {"taskId": "drawn", "contextId": "c"}
    events: list[dict[str, Any]] = [
        {"task": {"id": "drawn", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
        {"artifactUpdate": {**ids, "artifact": {"artifactId": "a", "parts": [{"raw": PICTURE}]}}},
        {"statusUpdate": {**ids, "status": {"state": "TASK_STATE_COMPLETED"}}},
    ]
    stream = "".join(
        f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in events
    ).encode()
    (tmp_path / "policies.json").write_text(
        json.dumps([build_policy_draft("No numbers", r"\d{9}", "responseToSource")])
    )
    with run_raw_agent() as raw:
        raw.behave = answer_with(200, stream, "text/event-stream")
        settings = RelaySettings(
            agents={"errands": AgentSettings(url=raw.url)},
            callers={"acme": CallerSettings(agents=("errands",))},
            policies=str(tmp_path / "policies.json"),
        )
        with running(tmp_path, relay=settings) as server:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "draw"}]}
            call = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendStreamingMessage",
                "params": {"message": message},
            }
            headers = {"Authorization": f"Bearer {server.api_key}", "A2A-Version": "1.0"}
            address = f"{server.url}/relay/v1/agents/errands"
            told = ""
            with httpx.stream("POST", address, json=call, headers=headers, timeout=PATIENCE_S) as response:
                for line in response.iter_lines():  # the stream stays open until the decision
                    told += line
                    if "HITL_HELD" in line:
                        break
            assert "HITL_HELD" in told
            assert PICTURE not in told
            wait_until_settled(server, decide(server, "drawn"))
            task = call_agent(server, "GetTask", {"id": "drawn"})
            assert task["artifacts"][0]["parts"] == [{"raw": PICTURE}]
