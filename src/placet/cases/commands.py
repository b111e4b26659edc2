"""What can be ordered of a case. Commands order, events report."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.cases.case import Decision
from placet.cases.grant import Grant
from placet.protocol.poll import Progress


class Command(Struct, frozen=True, kw_only=True):
    """An order to a case, with who gives it."""

    actor: str


class View(Command, frozen=True, kw_only=True):
    """The person has the page before them."""


class Work(Command, frozen=True, kw_only=True):
    """The person has begun to fill in."""

    progress: Progress | None = None


class Respond(Command, frozen=True, kw_only=True):
    """The person answers, and perhaps allows more of the same."""

    decision: Decision
    grants: tuple[Grant, ...] = ()


class Cancel(Command, frozen=True, kw_only=True):
    """The case is withdrawn, by its owner or by the person who will not decide it."""

    reason: str | None = None


class Expire(Command, frozen=True, kw_only=True):
    """The deadline has passed."""


class Remind(Command, frozen=True, kw_only=True):
    """A reminder has come due."""

    reminder_at: datetime


class PassOn(Command, frozen=True, kw_only=True):
    """The person hands the question to a colleague by a link of their own."""

    review_digest: str
    note: str | None = None


class Link(Command, frozen=True, kw_only=True):
    """A follow-up case continues this one."""

    next_case_id: str


class UseGrant(Command, frozen=True, kw_only=True):
    """A call runs without asking, because the answer to this case allowed it."""

    grant: Grant
    call: dict[str, Any]


class RevokeGrant(Command, frozen=True, kw_only=True):
    """What the answer to this case allowed is allowed no longer."""

    grant: Grant


class Erase(Command, frozen=True, kw_only=True):
    """Retention is over: content goes, the chain stays."""


COMMANDS: tuple[type[Command], ...] = (
    View,
    Work,
    Respond,
    Cancel,
    Expire,
    Remind,
    PassOn,
    Link,
    UseGrant,
    RevokeGrant,
    Erase,
)
