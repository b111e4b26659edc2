"""How much of a message stands in the audit."""

import json
from typing import Any

import msgspec
import pytest

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.payload_bodies import MAX_BODY_BYTES, build_payload_body
from tests.relay.audit.samples import SSN, build_call, build_finding, build_reply

USER = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": f"my SSN is {SSN}"}]}


def build_stored_body(payloads: Any, message: A2ACall | A2AReply, *findings: Any, **more: Any) -> Any:
    body = build_payload_body(payloads, message, findings, **more)
    return None if body is None else json.loads(bytes(body))


def test_mode_none_stores_no_body():
    assert build_stored_body("none", build_call("hello")) is None


def test_a_clean_message_is_kept_as_it_was():
    message = build_call("hello")
    assert build_stored_body("masked", message) == message.document
    assert build_stored_body("full", message) == message.document


def test_findings_are_masked_for_every_action():
    message = build_call(f"my SSN is {SSN}.")
    body = build_stored_body("masked", message, build_finding(message, SSN))
    assert body["params"]["message"]["parts"] == [{"text": "my SSN is [MASKED:US_SSN]."}]


def test_repeated_finding_is_masked_everywhere():
    message = build_call(f"my SSN is {SSN}", metadata={"copies": [SSN, {"n": f"<{SSN}>"}], SSN: 1})
    body = build_stored_body("masked", message, build_finding(message, SSN))
    assert SSN not in json.dumps(body)


def test_repeated_number_is_masked_everywhere():
    message = build_call("pay", metadata={"card": 4111111111111111, "again": 4111111111111111})
    body = build_stored_body("masked", message, build_finding(message, "4111111111111111", "CREDIT_CARD"))
    assert body["params"]["metadata"] == {"card": "[MASKED:CREDIT_CARD]", "again": "[MASKED:CREDIT_CARD]"}


def test_findings_of_the_request_are_masked_in_the_reply():
    asked = build_call(f"my SSN is {SSN}")
    answer = build_reply(asked, artifacts=[{"artifactId": "a", "parts": [{"text": f"noted: {SSN}"}]}])
    body = build_stored_body("masked", answer, elsewhere=[build_finding(asked, SSN)])
    assert body["result"]["task"]["artifacts"][0]["parts"] == [{"text": "noted: [MASKED:US_SSN]"}]


def test_history_is_left_out_of_stored_bodies():
    answer = build_reply(build_call("how far are you?"), history=[USER])
    assert SSN not in json.dumps(build_stored_body("masked", answer))
    assert build_stored_body("full", answer) == answer.document


def test_the_content_of_files_is_left_out():
    message = build_call("look", metadata={})
    message.params["message"]["parts"].append({"raw": "aGVsbG8=", "filename": "hello.txt"})
    parts = build_stored_body("masked", message)["params"]["message"]["parts"]
    assert parts[1] == {"raw": "[FILE CONTENT]", "filename": "hello.txt"}


@pytest.mark.parametrize("payloads", ["masked", "full"])
def test_the_secrets_of_push_notifications_are_never_kept(payloads: str):
    push = {"url": "https://a.example", "token": "tok", "authentication": {"credentials": "cred"}}
    message = build_call("hello", configuration={"taskPushNotificationConfig": push})
    made = {"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"taskId": "t", **push}}
    for asked in (message, A2ACall(dialect=RPC_1_0, operation="push_create", document=made)):
        text = json.dumps(build_stored_body(payloads, asked))
        assert "tok" not in text.replace("token", "")
        assert '"cred"' not in text


def test_a_full_body_shows_what_was_found():
    message = build_call(f"my SSN is {SSN}.")
    assert build_stored_body("full", message, build_finding(message, SSN)) == message.document


@pytest.mark.parametrize("over", [{"piece": 7}, {"start": 3}, {"text": "something else"}])
def test_a_finding_that_cannot_be_located_keeps_the_body_out(over: dict[str, Any]):
    message = build_call(f"my SSN is {SSN}.")
    assert build_stored_body("masked", message, build_finding(message, SSN, **over)) is None


def test_a_match_too_long_to_be_known_whole_is_masked_in_its_place():
    secret = "".join(f"{n:04}" for n in range(1000))
    message = build_call(f"<{secret}>")
    found = build_finding(message, secret, text=secret[:1000])
    body = build_stored_body("masked", message, found)
    assert body["params"]["message"]["parts"] == [{"text": "<[MASKED:US_SSN]>"}]


def test_a_match_too_long_to_be_known_whole_keeps_out_a_body_that_repeats_it():
    secret = "".join(f"{n:04}" for n in range(1000))
    asked = build_call(secret)
    answer = build_reply(asked, artifacts=[{"artifactId": "a", "parts": [{"text": secret}]}])
    assert (
        build_stored_body("masked", answer, elsewhere=[build_finding(asked, secret, text=secret[:1000])])
        is None
    )


def test_a_body_that_is_too_large_is_left_out():
    assert build_stored_body("masked", build_call("x" * MAX_BODY_BYTES)) is None


def test_a_body_that_is_nested_too_deep_is_left_out():
    deep: Any = "history"
    for _ in range(5_000):
        deep = {"history": deep}
    message = msgspec.structs.replace(build_call("x"), document={"params": {"deep": deep}})
    assert build_payload_body("masked", message) is None
