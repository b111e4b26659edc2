"""The data of an event (spec 8.5), the same in a stream and in a callback."""

from msgspec import Struct

from placet.protocol.poll import Progress, RespondedBy, Result
from placet.protocol.timestamp import Timestamp


class EventData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event; its name determines which fields are set."""

    case_id: str
    opened_at: Timestamp | None = None
    progress: Progress | None = None
    reminder_at: Timestamp | None = None
    message: str | None = None
    handed_back_at: Timestamp | None = None
    handed_back_by: RespondedBy | None = None
    completed_at: Timestamp | None = None
    result: Result | None = None
    expired_at: Timestamp | None = None
    default_action: str | None = None
    cancelled_at: Timestamp | None = None
    reason: str | None = None
