"""Messages through a real relay: what the audit tells of them, and what it never does."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from placet.relay.settings import TenantSettings
from tests.relay.audit.live import SSN, Live, live
from tests.waiting import eventually

APPROVALS = "/relay/v1/approvals"


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as found:
        yield found


def approval(relay: Live, correlation_id: str) -> str:
    """The address of the approval that a call waits for."""
    (found,) = relay.auditor.get(APPROVALS, params={"correlationId": correlation_id}).json()["content"]
    return f"{APPROVALS}/{found['id']}"


def test_a_call_is_one_event_with_what_was_asked_and_answered(relay: Live):
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
def test_what_a_policy_found_is_nowhere_in_the_audit(relay: Live, text: str):
    name, _ = relay.say(text, metadata={"again": text})
    found = relay.events(correlationId=name)
    assert {"COMMUNICATION_AUDIT", "REGEX_DETECTION"} <= {one["auditType"] for one in found}
    told = json.dumps(found)
    for digits in (SSN, "pay with 4", "1111 1111", "1 please"):
        assert digits not in told
    assert "[MASKED" in told


def test_a_name_that_a_policy_found_is_nowhere_in_the_audit(relay: Live):
    name, _ = relay.say("hello", metadata={f"of {SSN}": {"note": f"{SSN}"}})
    assert SSN not in json.dumps(relay.events(correlationId=name))


def test_a_blocked_message_says_so(relay: Live):
    name, answer = relay.say("a nettle")
    assert "error" in answer
    detected, call = relay.events(correlationId=name)
    assert (detected["auditType"], detected["auditAction"]) == ("REGEX_DETECTION", "BLOCK")
    assert (call["auditType"], call["auditAction"]) == ("COMMUNICATION_AUDIT", "BLOCK")


def test_a_held_message_is_one_trace_from_the_first_look_to_the_resolution(relay: Live):
    name, _ = relay.say("a rose")
    address = approval(relay, name)
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


def test_the_content_of_a_hold_that_is_done_with_is_forgotten_in_time(relay: Live):
    name, _ = relay.say("a last rose")
    other, _ = relay.say("a lasting rose")
    first, second = (approval(relay, one) for one in (name, other))
    relay.auditor.post(f"{first}/resolve", json={"action": "REJECTED"})
    eventually(lambda: relay.auditor.get(first).json()["completedAt"])
    assert relay.auditor.get(first).json()["matchedContent"] == "rose"
    assert relay.events(correlationId=other, auditType="COMMUNICATION_AUDIT")  # written a moment behind
    retention = relay.server.parts.relay.retention  # type: ignore[union-attr]
    relay.server.clock.advance(timedelta(hours=12))
    relay.server.run(retention.once())
    assert relay.auditor.get(first).json()["agentMessageText"] == "a last rose"
    relay.server.clock.advance(timedelta(days=30))
    relay.server.run(retention.once())
    shown = relay.auditor.get(first).json()
    assert (shown["agentMessageText"], shown["matchedContent"], shown["status"]) == ("", None, "REJECTED")
    assert relay.server.run(retention.once()) == 0
    assert relay.auditor.get(second).json()["agentMessageText"] == "a lasting rose"


def test_a_tenant_that_wants_all_of_it_gets_all_of_it(tmp_path_factory: pytest.TempPathFactory):
    with live(tmp_path_factory.mktemp("full"), default=TenantSettings(payloads="full")) as relay:
        name, answer = relay.say(f"my SSN is {SSN}")
        call = relay.events(correlationId=name, auditType="COMMUNICATION_AUDIT")[0]
        assert call["payload"]["responseBody"] == answer
        detected = relay.events(correlationId=name, auditType="REGEX_DETECTION")
        assert SSN not in json.dumps(detected)


def test_a_tenant_that_wants_nothing_of_it_gets_nothing_of_it(tmp_path_factory: pytest.TempPathFactory):
    with live(tmp_path_factory.mktemp("none"), default=TenantSettings(payloads="none")) as relay:
        name, _ = relay.say("hello")
        payload = relay.events(correlationId=name)[0]["payload"]
        assert payload["method"] == "SendMessage"
        assert not {"requestBody", "responseBody"} & set(payload)
