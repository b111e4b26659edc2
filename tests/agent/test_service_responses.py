"""Parsing the responses of services: lenient about details, never guessing a decision."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent import read_case, read_suggestions
from placet.agent.service_responses import FAR_OFF, MAX_BODY_LENGTH, FollowedCase, read_poll_result
from placet.errors import UnreadableAnswer
from placet.protocol.versions import SPEC_VERSIONS

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
URL = "https://jobs.example/api/search"
HITL: dict[str, Any] = {
    "spec_version": "0.9",
    "case_id": "review_1",
    "review_url": "https://jobs.example/review/review_1?token=t",
    "poll_url": "https://jobs.example/v1/reviews/review_1/status",
    "type": "confirmation",
    "prompt": "Send three e-mails?",
    "timeout": "2h",
    "default_action": "abort",
    "created_at": "2026-11-15T12:00:00Z",
    "expires_at": "2026-11-15T14:00:00Z",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)


def answer(**changed: Any) -> bytes:
    hitl = {name: value for name, value in {**HITL, **changed}.items() if value is not ...}
    return json.dumps({"status": "human_input_required", "message": "Please look.", "hitl": hitl}).encode()


def read(**changed: Any) -> FollowedCase:
    found = read_case(202, answer(**changed), url=URL, now=NOW)
    assert found is not None
    return found


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_every_version_is_read(version: str) -> None:
    assert read(spec_version=version).spec_version == version


@pytest.mark.parametrize("version", ["2.0", "", " 0.9", "0.9\n", "0.9.0", "0.4", "٠.٩"])
def test_unknown_version_is_refused(version: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="does not support version"):
        read(spec_version=version)


@pytest.mark.parametrize("version", [0.9, 0.5, 2.0, 1, 0, True, False, ["0.9"], {"0.9": "0.9"}])
def test_version_that_is_not_a_text_is_refused(version: Any) -> None:
    with pytest.raises(UnreadableAnswer, match=r'spec_version must be a text such as "0\.9"'):
        read(spec_version=version)


@pytest.mark.parametrize("version", [..., None])
def test_case_without_a_version_is_refused(version: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="has no spec_version"):
        read(spec_version=version)


@pytest.mark.parametrize("status", ["pending", "completed", "expired", "cancelled"])
def test_poll_response_needs_no_version(status: str) -> None:
    """No version of the protocol puts one into a poll response; the case decides."""
    body = json.dumps({"status": status, "case_id": "review_1", "result": {"action": "confirm", "data": {}}})
    assert read_poll_result(body.encode(), case_id="review_1").status == status


@pytest.mark.parametrize("missing", ["case_id", "review_url", "poll_url", "type"])
def test_missing_required_field_is_named(missing: str) -> None:
    with pytest.raises(UnreadableAnswer, match=missing):
        read(**{missing: ...})


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, answer()),
        (202, b'{"status": "accepted", "job": 7}'),
        (202, b'{"status": "queued", "hitl": {}}'),
        (202, b"not json"),
        (202, b'["hitl"]'),
        (202, b""),
    ],
)
def test_response_without_a_review_is_left_unchanged(status: int, body: bytes) -> None:
    assert read_case(status, body, url=URL, now=NOW) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"status": "human_input_required", "hitl": ["https://jobs.example/review/1"]}',
        b'{"status": "human_input_required"}',
        answer()[:-9],
        b'{"hitl":' * 5_000,
        answer(message="x" * MAX_BODY_LENGTH),
    ],
    ids=["another shape", "nothing", "cut off", "too deep", "too long"],
)
def test_malformed_review_request_is_an_error_and_not_a_plain_response(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match="opens a case, but"):
        read_case(202, body, url=URL, now=NOW)


def test_message_in_another_encoding_is_still_shown() -> None:
    latin = json.dumps(json.loads(answer(prompt="Grüße?")), ensure_ascii=False).encode("latin-1")
    found = read_case(202, latin, url=URL, now=NOW)
    assert found is not None
    assert found.prompt == "Gr\ufffd\ufffde?"


@pytest.mark.parametrize("name", ["review_url", "poll_url", "events_url", "submit_url"])
def test_invalid_url_is_refused_by_field_name(name: str) -> None:
    with pytest.raises(UnreadableAnswer, match=f"{name} is not a URL"):
        read(**{name: "http://[::1"})


def test_addresses_may_be_relative_to_the_one_that_was_called() -> None:
    assert read(poll_url="/reviews/1/status").poll_url == "https://jobs.example/reviews/1/status"


def test_missing_or_invalid_deadline_is_computed_from_the_timeout() -> None:
    assert read(expires_at=...).expires_at == NOW + timedelta(hours=2)
    assert read(expires_at="soon", timeout="a while").expires_at == NOW + timedelta(hours=24)
    assert read(expires_at="2026-11-15T13:00:00").expires_at == NOW + timedelta(hours=1)


def test_deadline_at_the_last_date_is_capped() -> None:
    never = "9999-12-31T23:59:59Z"
    assert read(expires_at=never).expires_at == FAR_OFF
    assert read(expires_at=..., created_at=never).expires_at == FAR_OFF


def test_a_service_may_say_who_it_is() -> None:
    assert read().service_name is None
    assert read(context={"service": {"name": "Parcel Desk"}}).service_name == "Parcel Desk"
    assert read(context={"service_name": "Parcel Desk"}).service_name == "Parcel Desk"
    assert read(context={"service": 7}).service_name is None
    for own in ({"service": "Parcel Desk"}, {"data": {"service": {"name": "Parcel Desk"}}}):
        named = {**json.loads(answer(context={"service": "Another"})), **own}
        found = read_case(202, json.dumps(named).encode(), url=URL, now=NOW)
        assert found is not None
        assert found.service_name == "Parcel Desk"


def test_reminders_may_be_one_or_many() -> None:
    one = "2026-11-15T13:00:00Z"
    assert read(reminder_at=one).reminders == (NOW + timedelta(hours=1),)
    assert len(read(reminder_at=[one, "2026-11-15T12:30:00Z", 7]).reminders) == 2


def test_buttons_are_offered_only_where_the_answer_can_be_submitted() -> None:
    inline = {"submit_url": "https://jobs.example/submit", "submit_token": "s" * 43}
    assert read(**inline).pressable == ("confirm", "cancel")
    assert read(**inline, inline_actions=["confirm"]).pressable == ("confirm",)
    assert read(submit_url=inline["submit_url"]).pressable == ()
    assert read(**{**inline, "submit_token": "t\u00f6ken"}).pressable == ()
    assert read(**inline, type="selection").pressable == ()
    assert read(**inline, type="approval").pressable == ("approve", "reject")
    assert read(**inline, type="x-vote", inline_actions=["yes"]).pressable == ("yes",)
    escalation = read(**inline, type="escalation", inline_actions=["abort", "roll_back", "approve"])
    assert escalation.pressable == ("abort", "roll_back")
    assert read(**inline, type="confirmation", inline_actions=None).pressable == ("confirm", "cancel")
    for malformed in ("confirm", {"confirm": True}, True, 0):
        assert read(**inline, type="confirmation", inline_actions=malformed).pressable == ()


@pytest.mark.parametrize(
    ("policy", "buttons"),
    [
        ({"mode": "required", "required_for": ["inline_submit"]}, False),
        ({"mode": "step_up"}, False),
        ("unreadable", False),
        ({"mode": "required", "required_for": ["browser_submit"]}, True),
        ({"mode": "optional", "required_for": ["inline_submit"]}, True),
    ],
)
def test_required_evidence_leaves_only_the_link(policy: Any, buttons: bool) -> None:
    inline = {"submit_url": "https://jobs.example/submit", "submit_token": "s" * 43}
    assert bool(read(**inline, verification_policy=policy).pressable) is buttons


def read_status(**body: Any) -> Any:
    return read_poll_result(json.dumps(body).encode(), case_id="review_1")


def test_completed_case_without_an_action_is_refused() -> None:
    for result in (None, {}, {"action": 7}, "approve"):
        with pytest.raises(UnreadableAnswer):
            read_status(status="completed", result=result)


def test_the_status_of_another_case_is_refused() -> None:
    with pytest.raises(UnreadableAnswer, match="another case"):
        read_status(status="completed", case_id="review_2", result={"action": "approve"})


def test_result_of_an_open_case_is_ignored() -> None:
    assert read_status(status="pending", result={"action": "approve"}).result is None


def test_suggestions_are_offered_at_most_twice() -> None:
    body = json.dumps(
        {
            "improvement_suggestions": [
                {"field": "cv", "issue": "short", "agent_action": "Ask for more.", "priority": "high"},
                {"field": 7},
                "noise",
            ]
        }
    ).encode()
    assert [one.field for one in read_suggestions(body, cycle=0)] == ["cv"]
    assert read_suggestions(body, cycle=1)
    assert read_suggestions(body, cycle=2) == ()


@given(st.dictionaries(st.sampled_from([*HITL, "submit_url", "context", "reminder_at"]), JSON))
def test_any_review_request_is_parsed_or_refused_by_field(changed: dict[str, Any]) -> None:
    with suppress(UnreadableAnswer):
        read_case(202, answer(**changed), url=URL, now=NOW)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_poll_response_is_parsed_or_refused_by_field(body: bytes) -> None:
    with suppress(UnreadableAnswer):
        read_poll_result(body, case_id="review_1")
