"""When a delivery is tried again, and what a reply means for it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.desk.delivery_retries import (
    RELEASE_RETRY_SCHEDULE,
    RETRY_SCHEDULE,
    classify_reply,
    next_attempt_in,
)


def test_ten_attempts_span_three_days_and_then_it_is_over() -> None:
    waits = [next_attempt_in(attempt, 0.0) for attempt in range(11)]
    assert waits == [*RETRY_SCHEDULE, None]
    assert sum(RETRY_SCHEDULE, timedelta(0)) == timedelta(hours=75, minutes=35, seconds=5)


@given(st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_jitter_only_lengthens_the_wait_by_at_most_a_fifth(attempt: int, jitter: float) -> None:
    wait = next_attempt_in(attempt, jitter)
    assert wait is not None
    assert RETRY_SCHEDULE[attempt] <= wait <= RETRY_SCHEDULE[attempt] * 1.2


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "delivered"),
        (204, "delivered"),
        (299, "delivered"),
        (301, "retry"),
        (307, "retry"),
        (400, "retry"),
        (404, "retry"),
        (410, "disable"),
        (429, "retry"),
        (500, "retry"),
        (199, "retry"),
        (None, "retry"),
    ],
)
def test_reply_decides_what_happens_to_the_delivery(status: int | None, verdict: str) -> None:
    assert classify_reply(status) == verdict


def test_forbidden_address_is_given_up_at_once() -> None:
    assert classify_reply(None, refused=True) == "give_up"


def test_approved_messages_are_retried_within_seconds_at_first() -> None:
    waits = [next_attempt_in(attempt, 0.0, RELEASE_RETRY_SCHEDULE) for attempt in range(19)]
    assert waits == [*RELEASE_RETRY_SCHEDULE, None]
    assert sum(RELEASE_RETRY_SCHEDULE[:4], timedelta(0)) == timedelta(seconds=17)
    assert all(wait <= timedelta(minutes=1) for wait in RELEASE_RETRY_SCHEDULE[:7])
    assert sum(RELEASE_RETRY_SCHEDULE, timedelta(0)) > sum(RETRY_SCHEDULE, timedelta(0))
