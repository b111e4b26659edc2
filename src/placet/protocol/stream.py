"""Server-sent events (spec 8.5): names and format."""

OPENED = "review.opened"
IN_PROGRESS = "review.in_progress"
REMINDER = "review.reminder"
COMPLETED = "review.completed"
EXPIRED = "review.expired"
CANCELLED = "review.cancelled"
HANDED_BACK = "review.handed_back"
"""Ours: the specification has no event for a reviewer who declines while the case stays open."""

SPECIFIED = frozenset({OPENED, IN_PROGRESS, REMINDER, COMPLETED, EXPIRED, CANCELLED})
STREAMED = SPECIFIED | {HANDED_BACK}  # a client ignores an event whose name it does not know
FINAL = frozenset({COMPLETED, EXPIRED, CANCELLED})

HEARTBEAT = b": still here\n\n"


def format_event(*, name: str, seq: int, data: bytes) -> bytes:
    """Return one event in the wire format; `data` is one line of JSON."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, name.encode(), data)


def parse_last_event_id(header: str | None) -> int:
    """Return the sequence number in a Last-Event-ID header; 0, which replays everything, if invalid."""
    return int(header) if header and header.isascii() and header.isdigit() and len(header) < 16 else 0
