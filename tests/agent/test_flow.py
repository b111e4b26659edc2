"""The flow that follows a case, without I/O: time and responses go in, steps come out."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.agent.flow import EXPIRY_GRACE, Done, Flow, Poll, SleepUntil
from placet.agent.outcomes import Cancelled, Decided, Expired
from placet.agent.service_responses import FAR_OFF, FollowedCase
from placet.errors import CaseLost, CredentialsRefused, StillWaiting, UnreadableAnswer

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
CASE = FollowedCase(
    case_id="review_1",
    type="approval",
    prompt="Deploy?",
    message="Deploy?",
    review_url="https://ci.example/review/1",
    poll_url="https://ci.example/poll/1",
    service_url="https://ci.example/deploy",
    created_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    spec_version="0.9",
    default_action="reject",
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def poll_body(status: str, **more: Any) -> bytes:
    return json.dumps({"status": status, "case_id": "review_1", **more}).encode()


def make_flow(case: FollowedCase = CASE, **options: Any) -> Flow:
    return Flow(case, now=NOW, dice=lambda: 0.0, **options)


def get_wait_seconds(following: Flow, now: datetime = NOW) -> float:
    step = following.step(now)
    assert isinstance(step, SleepUntil), step
    return (step.until - now).total_seconds()


def test_first_step_polls_and_a_result_ends_the_flow() -> None:
    following = make_flow()
    assert following.step(NOW) == Poll(url=CASE.poll_url, headers={})
    following.report_response(
        200, {}, poll_body("completed", result={"action": "approve", "data": {"a": 1}}), NOW
    )
    step = following.step(NOW)
    assert isinstance(step, Done)
    assert isinstance(step.outcome, Decided)
    assert (step.outcome.action, step.outcome.data) == ("approve", {"a": 1})


def test_expired_case_has_the_default_action_and_no_decision() -> None:
    following = make_flow()
    following.report_response(200, {}, poll_body("expired", default_action="abort"), NOW)
    assert following.step(NOW) == Done(
        outcome=Expired(
            case_id="review_1",
            default_action="abort",
            raw=json.loads(poll_body("expired", default_action="abort")),
        )
    )


def test_a_withdrawn_case_carries_its_reason() -> None:
    following = make_flow()
    following.report_response(200, {}, poll_body("cancelled", reason="No longer needed."), NOW)
    step = following.step(NOW)
    assert isinstance(step, Done)
    assert isinstance(step.outcome, Cancelled)
    assert step.outcome.reason == "No longer needed."


def test_retry_after_sets_the_interval_within_limits() -> None:
    following = make_flow()
    following.report_response(200, {"retry-after": "7"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 7
    following.report_response(200, {"retry-after": "86400"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 300
    following.report_response(
        200, {"retry-after": "Sun, 15 Nov 2026 12:00:20 GMT"}, poll_body("pending"), NOW
    )
    assert get_wait_seconds(following) == 20
    following.report_response(200, {"retry-after": "whenever"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 2


def test_without_retry_after_waits_grow_to_half_a_minute() -> None:
    following = make_flow()
    waits = []
    for _ in range(12):
        following.report_response(200, {}, poll_body("pending"), NOW)
        waits.append(get_wait_seconds(following))
    assert waits[:3] == [2, 3, 4.5]
    assert waits[-1] == 30


def test_own_interval_overrides_retry_after() -> None:
    following = make_flow(interval_s=0.5)
    following.report_response(200, {"retry-after": "30"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 0.5


def test_poll_sends_the_last_etag() -> None:
    following = make_flow()
    following.report_response(200, {"etag": '"3"', "retry-after": "1"}, poll_body("pending"), NOW)
    assert following.step(NOW + seconds(2)) == Poll(url=CASE.poll_url, headers={"If-None-Match": '"3"'})
    following.report_response(304, {"retry-after": "5"}, b"", NOW + seconds(2))
    assert get_wait_seconds(following, NOW + seconds(2)) == 5


def test_network_errors_are_reported_and_retried() -> None:
    following = make_flow()
    following.report_response(429, {"retry-after": "9"}, b"", NOW)
    assert get_wait_seconds(following) == 9
    waits = []
    for _ in range(8):
        following.report_unreachable("gone", NOW)
        waits.append(get_wait_seconds(following))
    assert waits == sorted(waits)
    assert waits[-1] == 60
    following.report_response(503, {}, b"", NOW)
    assert {notice.name for notice in following.notices()} == {"trouble"}


@pytest.mark.parametrize("status", [404, 410])
def test_case_that_is_no_longer_accessible_is_lost(status: int) -> None:
    with pytest.raises(CaseLost):
        make_flow().report_response(status, {}, b"", NOW)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_lose_the_case_only_after_its_deadline(status: int) -> None:
    with pytest.raises(CredentialsRefused):
        make_flow().report_response(status, {}, b"", NOW)
    with pytest.raises(CaseLost):
        make_flow().report_response(status, {}, b"", CASE.expires_at + EXPIRY_GRACE)


def test_case_resumed_after_its_deadline_is_still_polled() -> None:
    late = CASE.expires_at + timedelta(days=3)
    following = Flow(CASE, now=late, dice=lambda: 0.0)
    following.report_unreachable("The network is not up yet.", late)
    following.report_response(200, {}, poll_body("pending"), late + seconds(10))
    with pytest.raises(CaseLost):
        following.report_unreachable("gone", late + EXPIRY_GRACE)


def test_deadline_at_the_largest_date_is_accepted() -> None:
    following = make_flow(replace(CASE, expires_at=FAR_OFF))
    following.report_response(200, {}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 2


def test_clock_set_back_does_not_delay_polls() -> None:
    following = make_flow()
    following.step(NOW)
    following.report_response(200, {"retry-after": "30"}, poll_body("pending"), NOW)
    assert isinstance(following.step(NOW - timedelta(hours=1)), Poll)


@pytest.mark.parametrize("tag", ['"\u00e9"', '"\x01"'])
def test_etag_invalid_in_a_header_is_not_sent(tag: str) -> None:
    following = make_flow()
    following.report_response(200, {"etag": tag}, poll_body("pending"), NOW)
    assert following.step(NOW + seconds(2)) == Poll(url=CASE.poll_url, headers={})


def test_an_unreadable_answer_is_asked_for_again_and_then_given_up() -> None:
    following = make_flow()
    following.report_response(200, {}, b"<html>", NOW)
    following.report_response(200, {}, b"<html>", NOW)
    with pytest.raises(UnreadableAnswer):
        following.report_response(200, {}, b"<html>", NOW)


def test_no_wait_sleeps_past_the_deadline() -> None:
    following = make_flow()
    soon = CASE.expires_at - seconds(3)
    following.report_response(200, {"retry-after": "30"}, poll_body("pending"), soon)
    assert get_wait_seconds(following, soon) == 4


def test_overdue_case_without_an_end_is_given_up() -> None:
    late = CASE.expires_at + EXPIRY_GRACE
    with pytest.raises(CaseLost):
        make_flow().report_response(200, {}, poll_body("pending"), late)
    with pytest.raises(CaseLost):
        make_flow().report_unreachable("gone", late)
    following = make_flow()
    following.report_response(200, {}, poll_body("expired"), late)
    assert isinstance(following.step(late), Done)


def test_max_wait_may_end_before_the_case() -> None:
    following = make_flow(give_up_at=NOW + seconds(10))
    following.report_response(200, {"retry-after": "30"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 10
    with pytest.raises(StillWaiting):
        following.step(NOW + seconds(10))


def test_each_state_change_is_reported_once() -> None:
    following = make_flow()
    for status in ("pending", "opened", "opened", "in_progress", "in_progress"):
        following.report_response(200, {}, poll_body(status, progress={"current_step": 1}), NOW)
    assert [notice.name for notice in following.notices()] == ["opened", "in_progress"]
    following.report_response(200, {}, poll_body("in_progress", progress={"current_step": 2}), NOW)
    assert [notice.name for notice in following.notices()] == ["in_progress"]


STREAMING = replace(CASE, events_url="https://ci.example/events/1")


def test_while_a_stream_is_open_polls_are_few_and_an_event_brings_one_at_once() -> None:
    following = make_flow(STREAMING)
    following.report_response(200, {"retry-after": "2"}, poll_body("pending"), NOW)
    step = following.step(NOW)
    assert isinstance(step, SleepUntil)
    assert step.listen == STREAMING.events_url
    following.report_stream_open(NOW)
    assert get_wait_seconds(following) == 30
    following.report_event("review.completed", "4", NOW)
    assert isinstance(following.step(NOW), Poll)


def test_a_stream_is_resumed_where_it_ended() -> None:
    following = make_flow(STREAMING)
    following.report_response(200, {}, poll_body("pending"), NOW)
    following.report_event("review.opened", "2", NOW)
    following.report_stream_end(NOW, failed=False)
    assert isinstance(following.step(NOW), Poll)
    following.report_response(200, {}, poll_body("opened"), NOW)
    step = following.step(NOW)
    assert isinstance(step, SleepUntil)
    assert (step.listen, step.last_event_id) == (STREAMING.events_url, "2")


def test_unavailable_stream_falls_back_to_polls() -> None:
    following = make_flow(STREAMING)
    for turn in range(3):
        following.report_stream_end(NOW + seconds(turn), failed=True)
        assert isinstance(following.step(NOW + seconds(turn)), Poll)
        following.report_response(200, {}, poll_body("pending"), NOW + seconds(turn))
    step = following.step(NOW + seconds(2))
    assert isinstance(step, SleepUntil)
    assert step.listen is None


def test_stream_that_always_ends_at_once_falls_back_to_polls() -> None:
    following, now = make_flow(STREAMING), NOW
    for _ in range(3):
        assert isinstance(following.step(now), Poll)
        following.report_response(200, {}, poll_body("pending"), now)
        following.report_stream_open(now)
        following.report_stream_end(now, failed=False)
        step = following.step(now)
        assert isinstance(step, SleepUntil)
        assert step.listen is None  # first ask, then listen again
        now = step.until
    assert isinstance(following.step(now), Poll)
    following.report_response(200, {}, poll_body("pending"), now)
    step = following.step(now)
    assert isinstance(step, SleepUntil)
    assert step.listen is None


def test_a_stream_that_is_cut_now_and_then_is_opened_again() -> None:
    following, now = make_flow(STREAMING), NOW
    for _ in range(5):
        following.report_stream_open(now)
        now += seconds(60)
        following.report_stream_end(now, failed=False)
        assert isinstance(following.step(now), Poll)
        following.report_response(200, {}, poll_body("pending"), now)
    step = following.step(now)
    assert isinstance(step, SleepUntil)
    assert step.listen == STREAMING.events_url


def test_event_during_a_poll_causes_another_poll() -> None:
    following = make_flow(STREAMING)
    following.report_stream_open(NOW)
    following.report_callback(NOW)
    assert isinstance(following.step(NOW), Poll)
    following.report_event("review.completed", "4", NOW)
    following.report_response(200, {}, poll_body("opened"), NOW)
    assert get_wait_seconds(following) == 0.5
    assert isinstance(following.step(NOW + seconds(0.5)), Poll)


def test_event_does_not_override_retry_after() -> None:
    following = make_flow(STREAMING)
    following.step(NOW)
    following.report_response(429, {"retry-after": "20"}, b"", NOW)
    following.report_callback(NOW)
    assert get_wait_seconds(following) == 20


def test_callback_only_triggers_a_poll() -> None:
    following = make_flow()
    following.report_response(200, {"retry-after": "30"}, poll_body("pending"), NOW)
    following.report_callback(NOW)
    assert isinstance(following.step(NOW), Poll)


def test_reminder_is_sent_once_from_event_or_clock() -> None:
    at = NOW + seconds(60)
    following = make_flow(replace(STREAMING, reminders=(at,)))
    following.report_response(200, {"retry-after": "300"}, poll_body("pending"), NOW)
    following.report_stream_open(NOW)
    following.report_event("review.reminder", "2", at - seconds(1))
    following.step(at + seconds(1))
    assert [notice.name for notice in following.notices()] == ["reminder"]


def test_reminder_is_due_without_polls_and_not_after_opening() -> None:
    at = NOW + seconds(60)
    following = make_flow(replace(CASE, reminders=(at,)))
    following.report_response(200, {"retry-after": "300"}, poll_body("pending"), NOW)
    assert get_wait_seconds(following) == 60
    following.step(at)
    assert [notice.name for notice in following.notices()] == ["reminder"]
    busy = make_flow(replace(CASE, reminders=(at,)))
    busy.report_response(200, {"retry-after": "300"}, poll_body("in_progress"), NOW)
    busy.notices()
    busy.step(at)
    assert busy.notices() == []


def reminder_data(at: datetime) -> str:
    return json.dumps({"case_id": CASE.case_id, "reminder_at": at.isoformat(), "message": "1 hour left"})


def names(following: Flow) -> list[str]:
    return [notice.name for notice in following.notices()]


def test_resumed_agent_does_not_repeat_a_sent_reminder() -> None:
    """A stream is told from its beginning to a process that has not heard it before."""
    earlier, next = NOW - seconds(3600), NOW + seconds(3600)
    case = replace(STREAMING, reminders=(earlier, next), created_at=NOW - seconds(7200))
    following = make_flow(case, asks_first=True, reminded_up_to=earlier)
    following.report_response(200, {}, poll_body("pending"), NOW)
    following.report_stream_open(NOW)
    following.report_event("review.reminder", "2", NOW, reminder_data(earlier))
    following.step(NOW)
    assert names(following) == []
    following.report_event("review.reminder", "3", next, reminder_data(next))
    assert names(following) == ["reminder"]


@pytest.mark.parametrize(("status", "sent"), [("pending", ["reminder"]), ("completed", [])])
def test_resumed_agent_sends_a_missed_reminder_once_if_the_case_is_open(status: str, sent: list[str]) -> None:
    due = (NOW - seconds(3600), NOW - seconds(60))
    case = replace(STREAMING, reminders=due, created_at=NOW - seconds(7200))
    following = make_flow(case, asks_first=True)
    assert isinstance(following.step(NOW), Poll)
    following.report_unreachable("gone", NOW)
    assert get_wait_seconds(following) == 4  # without looking again and again whether it is time to remind
    assert names(following) == ["trouble"]
    following.report_response(200, {}, poll_body(status, result={"action": "approve"}), NOW)
    for at in due:
        following.report_event("review.reminder", "2", NOW, reminder_data(at))
    following.step(NOW)
    assert names(following) == sent


def test_replayed_stream_does_not_repeat_reminders() -> None:
    at, later = NOW + seconds(60), NOW + seconds(3600)
    following = make_flow(STREAMING)
    following.report_response(200, {}, poll_body("pending"), NOW)
    following.report_event("review.reminder", None, at, reminder_data(at))
    following.report_stream_end(at, failed=False)
    following.report_event("review.reminder", None, later, reminder_data(at))
    assert names(following) == ["reminder"]


@pytest.mark.parametrize("data", ["", "{", "[]", '{"reminder_at": 7}', '{"reminder_at": "soon"}', "\ud800"])
def test_reminder_without_a_time_is_sent(data: str) -> None:
    following = make_flow(STREAMING, asks_first=True)
    following.report_response(200, {}, poll_body("pending"), NOW)
    following.report_event("review.reminder", "2", NOW, data)
    assert names(following) == ["reminder"]
