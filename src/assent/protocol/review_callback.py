"""The body of a callback (spec 9): how a case ended, as its receiver reads it."""

from typing import Literal

from msgspec import Struct

from assent.protocol.moment import Moment
from assent.protocol.poll import Result


class ReviewCallback(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is POSTed to a callback address once a case has ended."""

    event: Literal["review.completed", "review.expired", "review.cancelled"]
    status: Literal["completed", "expired", "cancelled"]
    timestamp: Moment
    case_id: str
    completed_at: Moment | None = None
    result: Result | None = None
    expired_at: Moment | None = None
    default_action: str | None = None
    cancelled_at: Moment | None = None
    reason: str | None = None
