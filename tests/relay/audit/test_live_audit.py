"""Messages through a real relay: what the audit tells of them, and what it never does."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.relay.settings import TenantSettings
from tests.relay.a2a.raw_agent import build_head, stay_silent
from tests.relay.audit.audited_relay import SSN, AuditedRelay, run_audited_relay
from tests.waiting import eventually

APPROVALS = "/relay/v1/approvals"


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedRelay]:
    with run_audited_relay(tmp_path_factory.mktemp("live")) as found:
        yield found


def find_approval_url(relay: AuditedRelay, correlation_id: str) -> str:
    """The address of the approval that a call waits for."""
    (found,) = relay.auditor.get(APPROVALS, params={"correlationId": correlation_id}).json()["content"]
    return f"{APPROVALS}/{found['id']}"


def test_a_call_is_one_event_with_what_was_asked_and_answered(relay: AuditedRelay):
    name, answer = relay.say("hello")
    (event,) = relay.events(correlationId=name)
    assert (event["auditType"], event["auditAction"], event["transport"]) == (
        "COMMUNICATION_AUDIT",
        "LOG",
        "JSONRPC",
    )
    assert (event["sourceAgent"]["id"], event["sinkAgent"]["id"]) == ("trip-planner", "weather")
    task = answer["result"]["task"]
    assert (event["taskId"], event["contextId"], event["taskState"]) == (task["id"], "c-1", "completed")
    payload = event["payload"]
    assert (payload["version"], payload["method"], payload["httpStatus"]) == ("1.0", "SendMessage", 200)
    assert payload["requestBody"]["params"]["message"]["parts"] == [{"text": "hello"}]
    del task["history"]
    assert payload["responseBody"] == answer


@pytest.mark.parametrize(
    "text",
    [
        f"my SSN is {SSN}",
        f"{SSN}{SSN}",
        f"nettle {SSN}",
        f"rose {SSN}",
        "pay with 4111 1111 1111 1111 please",
    ],
)
def test_matched_text_never_appears_in_the_audit(relay: AuditedRelay, text: str):
    name, _ = relay.say(text, metadata={"again": text})
    found = relay.events(correlationId=name)
    assert {"COMMUNICATION_AUDIT", "REGEX_DETECTION"} <= {one["auditType"] for one in found}
    told = json.dumps(found)
    for digits in (SSN, "pay with 4", "1111 1111", "1 please"):
        assert digits not in told
    assert "[MASKED" in told


def test_matched_member_name_never_appears_in_the_audit(relay: AuditedRelay):
    name, _ = relay.say("hello", metadata={f"of {SSN}": {"note": f"{SSN}"}})
    assert SSN not in json.dumps(relay.events(correlationId=name))


def test_a_blocked_message_says_so(relay: AuditedRelay):
    name, answer = relay.say("a nettle")
    assert "error" in answer
    detected, call = relay.events(correlationId=name)
    assert (detected["auditType"], detected["auditAction"]) == ("REGEX_DETECTION", "BLOCK")
    assert (call["auditType"], call["auditAction"]) == ("COMMUNICATION_AUDIT", "BLOCK")


def test_held_message_has_one_trace_up_to_its_resolution(relay: AuditedRelay):
    name, _ = relay.say("a rose")
    address = find_approval_url(relay, name)
    relay.auditor.post(f"{address}/resolve", json={"action": "APPROVED"})
    eventually(lambda: relay.auditor.get(address).json()["completedAt"])
    trace = relay.auditor.get(f"/audit/v1/traces/{name}").json()
    steps = [(step["auditType"], step["auditAction"]) for step in trace["steps"]]
    assert steps == [
        ("COMMUNICATION_AUDIT", "HUMAN_REVIEW_REQUIRED"),
        ("REGEX_DETECTION", "HUMAN_REVIEW_REQUIRED"),
        ("HITL", "HUMAN_REVIEW_REQUIRED"),
        ("HITL_GUARD", "HUMAN_REVIEW_REQUIRED"),
        ("HITL_RESOLUTION", "LOG"),
        ("COMMUNICATION_AUDIT", "LOG"),
    ]
    (resolution,) = relay.events(correlationId=name, auditType="HITL_RESOLUTION")
    assert resolution["metadata"]["resolution"] == "APPROVED"
    assert resolution["metadata"]["resolvedBy"] == "ada"


def test_a_stream_that_goes_on_is_in_the_audit_with_its_task(tmp_path: Path):
    working = {"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}
    event = b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": working}).encode() + b"\n\n"
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    headers = {"A2A-Version": "1.0", "X-Correlation-Id": "stream-1"}
    with run_audited_relay(tmp_path) as relay:
        relay.agent.behave = stay_silent(build_head(200, content_type="text/event-stream") + event)
        with relay.caller.stream("POST", "/relay/v1/agents/weather", json=asked, headers=headers) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            (started,) = relay.events(correlationId="stream-1")
            connection = apsw.Connection(str(tmp_path / "cases.db"))
            tasks = connection.execute("SELECT id FROM relay_tasks WHERE kind = 'task'").fetchall()
            connection.close()
        assert (started["taskId"], started["payload"]["stage"]) == ("t-1", "STARTED")
        assert tasks == [("t-1",)]
        _, ended = eventually(lambda: _list_if_two(relay.events(correlationId="stream-1")))
        assert (ended["taskId"], "stage" in ended["payload"]) == ("t-1", False)


def _list_if_two(events: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return events if len(events) == 2 else None


def test_content_of_a_settled_hold_is_erased_after_retention(relay: AuditedRelay):
    name, _ = relay.say("a last rose")
    other, _ = relay.say("a lasting rose")
    first, second = (find_approval_url(relay, one) for one in (name, other))
    relay.auditor.post(f"{first}/resolve", json={"action": "REJECTED"})
    eventually(lambda: relay.auditor.get(first).json()["completedAt"])
    assert relay.auditor.get(first).json()["matchedContent"] == "rose"
    assert relay.events(correlationId=other, auditType="COMMUNICATION_AUDIT")  # written a moment behind
    retention = relay.server.parts.relay.retention  # type: ignore[union-attr]
    relay.server.clock.advance(timedelta(hours=12))
    relay.server.run(retention.run_once())
    assert relay.auditor.get(first).json()["agentMessageText"] == "a last rose"
    relay.server.clock.advance(timedelta(days=30))
    relay.server.run(retention.run_once())
    shown = relay.auditor.get(first).json()
    assert (shown["agentMessageText"], shown["matchedContent"], shown["status"]) == ("", None, "REJECTED")
    assert relay.server.run(retention.run_once()) == 0
    assert relay.auditor.get(second).json()["agentMessageText"] == "a lasting rose"


def test_mode_full_stores_whole_messages(tmp_path_factory: pytest.TempPathFactory):
    with run_audited_relay(tmp_path_factory.mktemp("full"), default=TenantSettings(payloads="full")) as relay:
        name, answer = relay.say(f"my SSN is {SSN}")
        call = relay.events(correlationId=name, auditType="COMMUNICATION_AUDIT")[0]
        assert call["payload"]["responseBody"] == answer
        detected = relay.events(correlationId=name, auditType="REGEX_DETECTION")
        assert SSN not in json.dumps(detected)


def test_mode_none_stores_no_messages(tmp_path_factory: pytest.TempPathFactory):
    with run_audited_relay(tmp_path_factory.mktemp("none"), default=TenantSettings(payloads="none")) as relay:
        name, _ = relay.say("hello")
        payload = relay.events(correlationId=name)[0]["payload"]
        assert payload["method"] == "SendMessage"
        assert not {"requestBody", "responseBody"} & set(payload)
