"""Following a case without doing anything: time and answers are given, steps come out."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.agent.flow import OVERDUE_FOR, Done, Flow, Poll, Wait
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


def body(status: str, **more: Any) -> bytes:
    return json.dumps({"status": status, "case_id": "review_1", **more}).encode()


def flow(case: FollowedCase = CASE, **options: Any) -> Flow:
    return Flow(case, now=NOW, dice=lambda: 0.0, **options)


def waited(following: Flow, now: datetime = NOW) -> float:
    step = following.step(now)
    assert isinstance(step, Wait), step
    return (step.until - now).total_seconds()


def test_the_first_step_asks_and_an_answer_ends_it() -> None:
    following = flow()
    assert following.step(NOW) == Poll(url=CASE.poll_url, headers={})
    following.report_response(200, {}, body("completed", result={"action": "approve", "data": {"a": 1}}), NOW)
    step = following.step(NOW)
    assert isinstance(step, Done)
    assert isinstance(step.outcome, Decided)
    assert (step.outcome.action, step.outcome.data) == ("approve", {"a": 1})


def test_an_expired_case_carries_the_services_rule_and_no_decision() -> None:
    following = flow()
    following.report_response(200, {}, body("expired", default_action="abort"), NOW)
    assert following.step(NOW) == Done(
        outcome=Expired(
            case_id="review_1",
            default_action="abort",
            raw=json.loads(body("expired", default_action="abort")),
        )
    )


def test_a_withdrawn_case_carries_its_reason() -> None:
    following = flow()
    following.report_response(200, {}, body("cancelled", reason="No longer needed."), NOW)
    step = following.step(NOW)
    assert isinstance(step, Done)
    assert isinstance(step.outcome, Cancelled)
    assert step.outcome.reason == "No longer needed."


def test_the_service_sets_the_pace_within_reason() -> None:
    following = flow()
    following.report_response(200, {"retry-after": "7"}, body("pending"), NOW)
    assert waited(following) == 7
    following.report_response(200, {"retry-after": "86400"}, body("pending"), NOW)
    assert waited(following) == 300
    following.report_response(200, {"retry-after": "Sun, 15 Nov 2026 12:00:20 GMT"}, body("pending"), NOW)
    assert waited(following) == 20
    following.report_response(200, {"retry-after": "whenever"}, body("pending"), NOW)
    assert waited(following) == 2


def test_without_a_pace_the_waits_grow_to_half_a_minute() -> None:
    following = flow()
    waits = []
    for _ in range(12):
        following.report_response(200, {}, body("pending"), NOW)
        waits.append(waited(following))
    assert waits[:3] == [2, 3, 4.5]
    assert waits[-1] == 30


def test_an_interval_of_ones_own_beats_the_services() -> None:
    following = flow(interval_s=0.5)
    following.report_response(200, {"retry-after": "30"}, body("pending"), NOW)
    assert waited(following) == 0.5


def test_what_is_known_is_asked_for_with_its_tag() -> None:
    following = flow()
    following.report_response(200, {"etag": '"3"', "retry-after": "1"}, body("pending"), NOW)
    assert following.step(NOW + seconds(2)) == Poll(url=CASE.poll_url, headers={"If-None-Match": '"3"'})
    following.report_response(304, {"retry-after": "5"}, b"", NOW + seconds(2))
    assert waited(following, NOW + seconds(2)) == 5


def test_trouble_on_the_way_is_told_and_waited_out() -> None:
    following = flow()
    following.report_response(429, {"retry-after": "9"}, b"", NOW)
    assert waited(following) == 9
    waits = []
    for _ in range(8):
        following.report_unreachable("gone", NOW)
        waits.append(waited(following))
    assert waits == sorted(waits)
    assert waits[-1] == 60
    following.report_response(503, {}, b"", NOW)
    assert {notice.name for notice in following.notices()} == {"trouble"}


@pytest.mark.parametrize("status", [404, 410])
def test_a_case_that_is_not_ours_any_more_is_lost_and_not_decided(status: int) -> None:
    with pytest.raises(CaseLost):
        flow().report_response(status, {}, b"", NOW)


@pytest.mark.parametrize("status", [401, 403])
def test_a_case_whose_credentials_have_run_out_is_lost_only_with_its_time(status: int) -> None:
    with pytest.raises(CredentialsRefused):
        flow().report_response(status, {}, b"", NOW)
    with pytest.raises(CaseLost):
        flow().report_response(status, {}, b"", CASE.expires_at + OVERDUE_FOR)


def test_who_comes_back_after_the_deadline_has_time_to_ask() -> None:
    late = CASE.expires_at + timedelta(days=3)
    following = Flow(CASE, now=late, dice=lambda: 0.0)
    following.report_unreachable("The network is not up yet.", late)
    following.report_response(200, {}, body("pending"), late + seconds(10))
    with pytest.raises(CaseLost):
        following.report_unreachable("gone", late + OVERDUE_FOR)


def test_a_deadline_at_the_end_of_time_is_one() -> None:
    following = flow(replace(CASE, expires_at=FAR_OFF))
    following.report_response(200, {}, body("pending"), NOW)
    assert waited(following) == 2


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    following = flow()
    following.step(NOW)
    following.report_response(200, {"retry-after": "30"}, body("pending"), NOW)
    assert isinstance(following.step(NOW - timedelta(hours=1)), Poll)


@pytest.mark.parametrize("tag", ['"\u00e9"', '"\x01"'])
def test_a_tag_that_cannot_be_sent_back_is_not(tag: str) -> None:
    following = flow()
    following.report_response(200, {"etag": tag}, body("pending"), NOW)
    assert following.step(NOW + seconds(2)) == Poll(url=CASE.poll_url, headers={})


def test_an_unreadable_answer_is_asked_for_again_and_then_given_up() -> None:
    following = flow()
    following.report_response(200, {}, b"<html>", NOW)
    following.report_response(200, {}, b"<html>", NOW)
    with pytest.raises(UnreadableAnswer):
        following.report_response(200, {}, b"<html>", NOW)


def test_no_wait_sleeps_past_the_deadline() -> None:
    following = flow()
    soon = CASE.expires_at - seconds(3)
    following.report_response(200, {"retry-after": "30"}, body("pending"), soon)
    assert waited(following, soon) == 4


def test_a_service_that_never_says_how_it_ended_is_given_up_without_a_result() -> None:
    late = CASE.expires_at + OVERDUE_FOR
    with pytest.raises(CaseLost):
        flow().report_response(200, {}, body("pending"), late)
    with pytest.raises(CaseLost):
        flow().report_unreachable("gone", late)
    following = flow()
    following.report_response(200, {}, body("expired"), late)
    assert isinstance(following.step(late), Done)


def test_patience_may_end_before_the_case_does() -> None:
    following = flow(give_up_at=NOW + seconds(10))
    following.report_response(200, {"retry-after": "30"}, body("pending"), NOW)
    assert waited(following) == 10
    with pytest.raises(StillWaiting):
        following.step(NOW + seconds(10))


def test_what_the_person_does_is_noticed_once() -> None:
    following = flow()
    for status in ("pending", "opened", "opened", "in_progress", "in_progress"):
        following.report_response(200, {}, body(status, progress={"current_step": 1}), NOW)
    assert [notice.name for notice in following.notices()] == ["opened", "in_progress"]
    following.report_response(200, {}, body("in_progress", progress={"current_step": 2}), NOW)
    assert [notice.name for notice in following.notices()] == ["in_progress"]


STREAMING = replace(CASE, events_url="https://ci.example/events/1")


def test_while_a_stream_is_open_polls_are_few_and_an_event_brings_one_at_once() -> None:
    following = flow(STREAMING)
    following.report_response(200, {"retry-after": "2"}, body("pending"), NOW)
    step = following.step(NOW)
    assert isinstance(step, Wait)
    assert step.listen == STREAMING.events_url
    following.report_stream_open(NOW)
    assert waited(following) == 30
    following.report_event("review.completed", "4", NOW)
    assert isinstance(following.step(NOW), Poll)


def test_a_stream_is_resumed_where_it_ended() -> None:
    following = flow(STREAMING)
    following.report_response(200, {}, body("pending"), NOW)
    following.report_event("review.opened", "2", NOW)
    following.report_stream_end(NOW, failed=False)
    assert isinstance(following.step(NOW), Poll)
    following.report_response(200, {}, body("opened"), NOW)
    step = following.step(NOW)
    assert isinstance(step, Wait)
    assert (step.listen, step.last_event_id) == (STREAMING.events_url, "2")


def test_a_stream_that_cannot_be_had_is_left_for_polls() -> None:
    following = flow(STREAMING)
    for turn in range(3):
        following.report_stream_end(NOW + seconds(turn), failed=True)
        assert isinstance(following.step(NOW + seconds(turn)), Poll)
        following.report_response(200, {}, body("pending"), NOW + seconds(turn))
    step = following.step(NOW + seconds(2))
    assert isinstance(step, Wait)
    assert step.listen is None


def test_a_stream_that_opens_only_to_end_is_left_for_polls_too() -> None:
    following, now = flow(STREAMING), NOW
    for _ in range(3):
        assert isinstance(following.step(now), Poll)
        following.report_response(200, {}, body("pending"), now)
        following.report_stream_open(now)
        following.report_stream_end(now, failed=False)
        step = following.step(now)
        assert isinstance(step, Wait)
        assert step.listen is None  # first ask, then listen again
        now = step.until
    assert isinstance(following.step(now), Poll)
    following.report_response(200, {}, body("pending"), now)
    step = following.step(now)
    assert isinstance(step, Wait)
    assert step.listen is None


def test_a_stream_that_is_cut_now_and_then_is_opened_again() -> None:
    following, now = flow(STREAMING), NOW
    for _ in range(5):
        following.report_stream_open(now)
        now += seconds(60)
        following.report_stream_end(now, failed=False)
        assert isinstance(following.step(now), Poll)
        following.report_response(200, {}, body("pending"), now)
    step = following.step(now)
    assert isinstance(step, Wait)
    assert step.listen == STREAMING.events_url


def test_what_happens_while_an_answer_is_on_its_way_is_asked_for_again() -> None:
    following = flow(STREAMING)
    following.report_stream_open(NOW)
    following.report_callback(NOW)
    assert isinstance(following.step(NOW), Poll)
    following.report_event("review.completed", "4", NOW)
    following.report_response(200, {}, body("opened"), NOW)
    assert waited(following) == 0.5
    assert isinstance(following.step(NOW + seconds(0.5)), Poll)


def test_no_event_makes_up_for_being_told_to_wait() -> None:
    following = flow(STREAMING)
    following.step(NOW)
    following.report_response(429, {"retry-after": "20"}, b"", NOW)
    following.report_callback(NOW)
    assert waited(following) == 20


def test_a_callback_only_brings_a_poll() -> None:
    following = flow()
    following.report_response(200, {"retry-after": "30"}, body("pending"), NOW)
    following.report_callback(NOW)
    assert isinstance(following.step(NOW), Poll)


def test_the_link_is_sent_again_once_whether_the_service_or_the_clock_says_so() -> None:
    at = NOW + seconds(60)
    following = flow(replace(STREAMING, reminders=(at,)))
    following.report_response(200, {"retry-after": "300"}, body("pending"), NOW)
    following.report_stream_open(NOW)
    following.report_event("review.reminder", "2", at - seconds(1))
    following.step(at + seconds(1))
    assert [notice.name for notice in following.notices()] == ["reminder"]


def test_a_reminder_is_due_though_nobody_polls_and_not_once_the_person_is_at_it() -> None:
    at = NOW + seconds(60)
    following = flow(replace(CASE, reminders=(at,)))
    following.report_response(200, {"retry-after": "300"}, body("pending"), NOW)
    assert waited(following) == 60
    following.step(at)
    assert [notice.name for notice in following.notices()] == ["reminder"]
    busy = flow(replace(CASE, reminders=(at,)))
    busy.report_response(200, {"retry-after": "300"}, body("in_progress"), NOW)
    busy.notices()
    busy.step(at)
    assert busy.notices() == []


def reminded(at: datetime) -> str:
    return json.dumps({"case_id": CASE.case_id, "reminder_at": at.isoformat(), "message": "1 hour left"})


def names(following: Flow) -> list[str]:
    return [notice.name for notice in following.notices()]


def test_whoever_comes_back_does_not_send_again_what_was_sent_before() -> None:
    """A stream is told from its beginning to a process that has not heard it before."""
    earlier, next = NOW - seconds(3600), NOW + seconds(3600)
    case = replace(STREAMING, reminders=(earlier, next), created_at=NOW - seconds(7200))
    following = flow(case, asks_first=True, reminded_up_to=earlier)
    following.report_response(200, {}, body("pending"), NOW)
    following.report_stream_open(NOW)
    following.report_event("review.reminder", "2", NOW, reminded(earlier))
    following.step(NOW)
    assert names(following) == []
    following.report_event("review.reminder", "3", next, reminded(next))
    assert names(following) == ["reminder"]


@pytest.mark.parametrize(("status", "sent"), [("pending", ["reminder"]), ("completed", [])])
def test_whoever_comes_back_sends_once_what_came_due_meanwhile_and_only_if_it_is_open(
    status: str, sent: list[str]
) -> None:
    due = (NOW - seconds(3600), NOW - seconds(60))
    case = replace(STREAMING, reminders=due, created_at=NOW - seconds(7200))
    following = flow(case, asks_first=True)
    assert isinstance(following.step(NOW), Poll)
    following.report_unreachable("gone", NOW)
    assert waited(following) == 4  # without looking again and again whether it is time to remind
    assert names(following) == ["trouble"]
    following.report_response(200, {}, body(status, result={"action": "approve"}), NOW)
    for at in due:
        following.report_event("review.reminder", "2", NOW, reminded(at))
    following.step(NOW)
    assert names(following) == sent


def test_a_stream_that_begins_anew_each_time_reminds_nobody_twice() -> None:
    at, later = NOW + seconds(60), NOW + seconds(3600)
    following = flow(STREAMING)
    following.report_response(200, {}, body("pending"), NOW)
    following.report_event("review.reminder", None, at, reminded(at))
    following.report_stream_end(at, failed=False)
    following.report_event("review.reminder", None, later, reminded(at))
    assert names(following) == ["reminder"]


@pytest.mark.parametrize("data", ["", "{", "[]", '{"reminder_at": 7}', '{"reminder_at": "soon"}', "\ud800"])
def test_a_reminder_that_does_not_say_which_it_is_is_one(data: str) -> None:
    following = flow(STREAMING, asks_first=True)
    following.report_response(200, {}, body("pending"), NOW)
    following.report_event("review.reminder", "2", NOW, data)
    assert names(following) == ["reminder"]
