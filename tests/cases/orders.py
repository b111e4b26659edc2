"""One plain order of every kind, and cases in every status."""

from datetime import datetime, timedelta

from placet.cases.call_receipt import CallReceipt
from placet.cases.case import Case, Decision
from placet.cases.commands import (
    COMMANDS,
    Cancel,
    Command,
    Erase,
    Expire,
    HandBack,
    HandBackAsLast,
    Link,
    MarkAltered,
    PassOn,
    RecordNotification,
    Remind,
    ReportCalls,
    Respond,
    RevokeGrant,
    UseGrant,
    View,
    WarnOfExpiry,
    Work,
)
from placet.cases.events import Event
from placet.cases.execution_outcomes import ExecutionOutcome
from placet.cases.grant import Grant
from placet.cases.machine import apply
from placet.protocol.poll import Progress, Result, Status, SubmissionContext
from placet.testing.clock import DAYBREAK
from placet.testing.samples import sample_creation

OPENS_AT = DAYBREAK
ENDS_AT = DAYBREAK + timedelta(days=1)
REMINDS_AT = DAYBREAK + timedelta(hours=6)
TICK = timedelta(microseconds=1)

DECISION = Decision(
    result=Result(action="approve", data={"feedback": "go"}),
    submission=SubmissionContext(mode="browser_submit"),
)

GRANT = Grant(
    id="grant_1",
    owner="acme",
    tool="send_email",
    agent="mailer",
    patterns={"to": {"glob": "*@acme.example"}},
    uses=5,
    granted_at=OPENS_AT,
    expires_at=ENDS_AT,
    granted_by="person",
    case_id="review_1",
    call_id="call_1",
)

ORDERS: dict[type[Command], Command] = {
    View: View(actor="person"),
    Work: Work(actor="person", progress=Progress(completed_fields=1, total_fields=4)),
    Respond: Respond(actor="person", decision=DECISION, grants=(GRANT,)),
    Cancel: Cancel(actor="key:acme", reason="no longer needed"),
    HandBack: HandBack(actor="person", reason="not mine"),
    HandBackAsLast: HandBackAsLast(actor="person", reason="not mine"),
    Expire: Expire(actor="system"),
    Remind: Remind(actor="system", reminder_at=REMINDS_AT),
    WarnOfExpiry: WarnOfExpiry(actor="system"),
    RecordNotification: RecordNotification(
        actor="system", is_reminder=True, details={"recipient": "ada", "kind": "reminder"}
    ),
    PassOn: PassOn(actor="person", review_digest="1" * 64, note="yours, I think"),
    Link: Link(actor="key:acme", next_case_id="review_next"),
    UseGrant: UseGrant(actor="key:acme", grant=GRANT, call={"id": "call_2", "name": "send_email"}),
    RevokeGrant: RevokeGrant(actor="key:acme", grant=GRANT),
    ReportCalls: ReportCalls(
        actor="key:acme", receipts=(CallReceipt(call_id="call_1", outcome=ExecutionOutcome.RAN),)
    ),
    MarkAltered: MarkAltered(actor="system"),
    Erase: Erase(actor="system"),
}
assert set(ORDERS) == set(COMMANDS)

_WAYS: dict[Status, tuple[type[Command], ...]] = {
    Status.PENDING: (),
    Status.OPENED: (View,),
    Status.IN_PROGRESS: (Work,),
    Status.COMPLETED: (Respond,),
    Status.EXPIRED: (Expire,),
    Status.CANCELLED: (Cancel,),
}


def fresh() -> tuple[Case, list[Event]]:
    """A case that was just opened, with its first event."""
    creation = sample_creation(
        expires_at=ENDS_AT, reminders=(REMINDS_AT,), callback_url="https://acme.example/callback"
    )
    return creation.case, list(creation.events)


def case_in_status(status: Status) -> tuple[Case, list[Event]]:
    """A case in this status, with the events that led there."""
    case, events = fresh()
    for command in _WAYS[status]:
        now = ENDS_AT if command is Expire else OPENS_AT + timedelta(hours=1)
        step = apply(case, ORDERS[command], now=now, salt="grain")
        case, events = step.case, [*events, *step.events]
    assert case.status is status
    return case, events


def in_time(case: Case) -> datetime:
    """A moment at which this case's deadline refuses nobody."""
    return ENDS_AT - timedelta(hours=1)
