"""The body of a callback (spec 9): how a case ended, as its receiver reads it."""

from typing import Literal

from placet.protocol.event_data import EventData
from placet.protocol.timestamp import Timestamp


class ReviewCallback(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """What is POSTed to a callback address once a case has ended: the last event, with its name and time."""

    event: Literal["review.completed", "review.expired", "review.cancelled"]
    status: Literal["completed", "expired", "cancelled"]
    timestamp: Timestamp
