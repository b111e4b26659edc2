"""What one event tells (spec 8.5): the same facts in a stream and in a callback."""

from msgspec import Struct

from placet.protocol.poll import Progress, Result
from placet.protocol.timestamp import Timestamp


class EventData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of an event; which of them are there depends on its name."""

    case_id: str
    opened_at: Timestamp | None = None
    progress: Progress | None = None
    reminder_at: Timestamp | None = None
    message: str | None = None
    completed_at: Timestamp | None = None
    result: Result | None = None
    expired_at: Timestamp | None = None
    default_action: str | None = None
    cancelled_at: Timestamp | None = None
    reason: str | None = None
