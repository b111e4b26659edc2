"""The commands that change a case. The events that follow are in `events`."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.cases.call_receipt import CallReceipt
from placet.cases.case import Decision
from placet.cases.grant import Grant
from placet.protocol.poll import Progress, RespondedBy


class Command(Struct, frozen=True, kw_only=True):
    """A command to a case, and who gives it."""

    actor: str


class View(Command, frozen=True, kw_only=True):
    """The reviewer opened the page."""


class Work(Command, frozen=True, kw_only=True):
    """The reviewer started to fill in the page."""

    progress: Progress | None = None


class Respond(Command, frozen=True, kw_only=True):
    """The reviewer answers, and may grant further calls."""

    decision: Decision
    grants: tuple[Grant, ...] = ()


class Cancel(Command, frozen=True, kw_only=True):
    """The owner withdraws the case."""

    reason: str | None = None


class HandBack(Command, frozen=True, kw_only=True):
    """A reviewer declines to decide the case. It stays open for others."""

    by: RespondedBy | None = None
    reason: str | None = None


class HandBackAsLast(HandBack, frozen=True, kw_only=True):
    """The only person who was asked declines, and the owner wants the case cancelled then."""


class Expire(Command, frozen=True, kw_only=True):
    """The deadline has passed."""


class Remind(Command, frozen=True, kw_only=True):
    """A reminder is due."""

    reminder_at: datetime


class WarnOfExpiry(Command, frozen=True, kw_only=True):
    """The deadline is near."""


class RecordNotification(Command, frozen=True, kw_only=True):
    """A message about the case was sent to a recipient."""

    is_reminder: bool
    """Whether it reminds a person of the case, or warns of its expiry."""
    details: dict[str, Any]
    """Who was notified of what, and the message as its channel knows it."""


class PassOn(Command, frozen=True, kw_only=True):
    """The reviewer passes the case on to a colleague with a new link."""

    review_digest: str
    note: str | None = None


class Link(Command, frozen=True, kw_only=True):
    """A follow-up case continues this one."""

    next_case_id: str


class UseGrant(Command, frozen=True, kw_only=True):
    """A call runs without a new case, because a grant from this case covers it."""

    grant: Grant
    call: dict[str, Any]


class RevokeGrant(Command, frozen=True, kw_only=True):
    """A grant from this case is revoked."""

    grant: Grant


class ReportCalls(Command, frozen=True, kw_only=True):
    """The agent reports what became of the calls of this case."""

    receipts: tuple[CallReceipt, ...]


class MarkAltered(Command, frozen=True, kw_only=True):
    """The stored offer does not match its digest. The case can no longer be answered."""


class Erase(Command, frozen=True, kw_only=True):
    """Retention has ended: erase the content and keep the chain of events."""


COMMANDS: tuple[type[Command], ...] = (
    View,
    Work,
    Respond,
    Cancel,
    HandBack,
    HandBackAsLast,
    Expire,
    Remind,
    WarnOfExpiry,
    RecordNotification,
    PassOn,
    Link,
    UseGrant,
    RevokeGrant,
    ReportCalls,
    MarkAltered,
    Erase,
)
