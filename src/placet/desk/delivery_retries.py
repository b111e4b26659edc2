"""The retry schedule of deliveries, and the meaning of a receiver's reply."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

# Standard Webhooks, "Deliverability and reliability": the wait before each attempt.
RETRY_SCHEDULE = (
    timedelta(0),
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
RELEASE_RETRY_SCHEDULE = (
    *(timedelta(seconds=wait) for wait in (0, 2, 5, 10, 20, 30)),
    *(timedelta(minutes=wait) for wait in (1, 2, 5, 15, 30)),
    *(timedelta(hours=wait) for wait in (1, 2, 5, 10, 14, 20, 24)),
)
"""The wait before each attempt to send an approved message to an agent. Its caller waits for the answer."""
NOTIFICATION_RETRY_SCHEDULE = (
    *(timedelta(seconds=wait) for wait in (0, 5, 20)),
    *(timedelta(minutes=wait) for wait in (1, 5, 15, 30)),
    *(timedelta(hours=wait) for wait in (1, 2, 4, 8, 12, 24, 24)),
)
"""The wait before each attempt to notify a person, who may have little time to answer."""
JITTER_SHARE = 0.2

ReplyClass = Literal["delivered", "retry", "disable", "give_up"]


def next_attempt_in(
    attempt: int, jitter: float, schedule: Sequence[timedelta] = RETRY_SCHEDULE
) -> timedelta | None:
    """Return how long to wait after `attempt` failed attempts, or None to give up.

    `jitter` in [0, 1) lengthens the wait by up to a fifth, so that retries are spread over time.
    """
    if attempt >= len(schedule):
        return None
    return schedule[max(attempt, 0)] * (1 + JITTER_SHARE * jitter)


def classify_reply(status: int | None, *, refused: bool = False) -> ReplyClass:
    """Return what a receiver's reply means for the delivery.

    `status` is None without a reply; `refused` says that the URL must not be called. As in Standard Webhooks,
    410 ends all deliveries to this URL, and every other failure is retried, also redirects and 4xx.
    """
    if refused:
        return "give_up"
    if status is not None and 200 <= status < 300:
        return "delivered"
    return "disable" if status == 410 else "retry"
