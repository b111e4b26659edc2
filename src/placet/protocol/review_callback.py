"""The body of a callback (spec 9), which reports how a case ended."""

from typing import Literal

from placet.protocol.event_data import EventData
from placet.protocol.timestamp import Timestamp


class ReviewCallback(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The body POSTed to a callback URL when a case has ended: its last event, with name and time."""

    event: Literal["review.completed", "review.expired", "review.cancelled", "review.handed_back"]
    status: Literal["completed", "expired", "cancelled"]
    timestamp: Timestamp
