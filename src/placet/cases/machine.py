"""The life of a case: one table keyed by status and command, and one pure function over it.

Every rule about transitions is in TRANSITIONS or in `require`. `apply` is pure: it never changes the
case that it is given, and time and randomness are arguments. A command without an event to report changes
nothing.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases import events as log
from placet.cases.call_receipt import select_new_receipts
from placet.cases.case import Case, HandedBack, compute_grant_digest
from placet.cases.commands import (
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
from placet.cases.grant import Grant
from placet.errors import (
    AlreadyClosed,
    CaseExpired,
    CaseNotCompleted,
    CaseStillOpen,
    ContentAltered,
    RequestError,
)
from placet.protocol import stream
from placet.protocol.poll import Status

PENDING, OPENED, IN_PROGRESS = Status.PENDING, Status.OPENED, Status.IN_PROGRESS
COMPLETED, EXPIRED, CANCELLED = Status.COMPLETED, Status.EXPIRED, Status.CANCELLED


class Stay(Struct, frozen=True):
    """The command has no effect and is not an error."""


class Refuse(Struct, frozen=True):
    """The command is refused with this error."""

    error: type[RequestError]


STAY, CLOSED, LATE = Stay(), Refuse(AlreadyClosed), Refuse(CaseExpired)
OPEN = Refuse(CaseStillOpen)
NOT_COMPLETED = Refuse(CaseNotCompleted)
TransitionRule = Status | Stay | Refuse

TRANSITIONS: Mapping[tuple[Status, type[Command]], TransitionRule] = {
    (PENDING, View): OPENED,
    (PENDING, Work): IN_PROGRESS,
    (PENDING, Respond): COMPLETED,
    (PENDING, Cancel): CANCELLED,
    (PENDING, HandBack): PENDING,
    (PENDING, HandBackAsLast): CANCELLED,
    (PENDING, Expire): EXPIRED,
    (PENDING, Remind): PENDING,
    (PENDING, WarnOfExpiry): PENDING,
    (PENDING, RecordNotification): PENDING,
    (PENDING, PassOn): PENDING,
    (PENDING, Link): NOT_COMPLETED,
    (PENDING, UseGrant): STAY,
    (PENDING, RevokeGrant): STAY,
    (PENDING, ReportCalls): OPEN,
    (PENDING, MarkAltered): PENDING,
    (PENDING, Erase): STAY,
    (OPENED, View): STAY,
    (OPENED, Work): IN_PROGRESS,
    (OPENED, Respond): COMPLETED,
    (OPENED, Cancel): CANCELLED,
    (OPENED, HandBack): OPENED,
    (OPENED, HandBackAsLast): CANCELLED,
    (OPENED, Expire): EXPIRED,
    (OPENED, Remind): OPENED,
    (OPENED, WarnOfExpiry): OPENED,
    (OPENED, RecordNotification): OPENED,
    (OPENED, PassOn): OPENED,
    (OPENED, Link): NOT_COMPLETED,
    (OPENED, UseGrant): STAY,
    (OPENED, RevokeGrant): STAY,
    (OPENED, ReportCalls): OPEN,
    (OPENED, MarkAltered): OPENED,
    (OPENED, Erase): STAY,
    (IN_PROGRESS, View): STAY,
    (IN_PROGRESS, Work): IN_PROGRESS,
    (IN_PROGRESS, Respond): COMPLETED,
    (IN_PROGRESS, Cancel): CANCELLED,
    (IN_PROGRESS, HandBack): IN_PROGRESS,
    (IN_PROGRESS, HandBackAsLast): CANCELLED,
    (IN_PROGRESS, Expire): EXPIRED,
    (IN_PROGRESS, Remind): STAY,  # spec 6: reminders go out while pending or opened
    (IN_PROGRESS, WarnOfExpiry): IN_PROGRESS,
    (IN_PROGRESS, RecordNotification): IN_PROGRESS,
    (IN_PROGRESS, PassOn): IN_PROGRESS,
    (IN_PROGRESS, Link): NOT_COMPLETED,
    (IN_PROGRESS, UseGrant): STAY,
    (IN_PROGRESS, RevokeGrant): STAY,
    (IN_PROGRESS, ReportCalls): OPEN,
    (IN_PROGRESS, MarkAltered): IN_PROGRESS,
    (IN_PROGRESS, Erase): STAY,
    (COMPLETED, View): STAY,
    (COMPLETED, Work): CLOSED,
    (COMPLETED, Respond): CLOSED,  # spec 13.2: the second answer gets 409
    (COMPLETED, Cancel): CLOSED,
    (COMPLETED, HandBack): CLOSED,
    (COMPLETED, HandBackAsLast): CLOSED,
    (COMPLETED, Expire): STAY,
    (COMPLETED, Remind): STAY,
    (COMPLETED, WarnOfExpiry): STAY,
    (COMPLETED, RecordNotification): COMPLETED,
    (COMPLETED, PassOn): CLOSED,
    (COMPLETED, Link): COMPLETED,
    (COMPLETED, UseGrant): COMPLETED,
    (COMPLETED, RevokeGrant): COMPLETED,
    (COMPLETED, ReportCalls): COMPLETED,
    (COMPLETED, MarkAltered): COMPLETED,
    (COMPLETED, Erase): COMPLETED,
    (EXPIRED, View): STAY,
    (EXPIRED, Work): LATE,
    (EXPIRED, Respond): LATE,
    (EXPIRED, Cancel): LATE,
    (EXPIRED, HandBack): LATE,
    (EXPIRED, HandBackAsLast): LATE,
    (EXPIRED, Expire): STAY,
    (EXPIRED, Remind): STAY,
    (EXPIRED, WarnOfExpiry): STAY,
    (EXPIRED, RecordNotification): EXPIRED,
    (EXPIRED, PassOn): LATE,
    (EXPIRED, Link): NOT_COMPLETED,
    (EXPIRED, UseGrant): STAY,
    (EXPIRED, RevokeGrant): STAY,
    (EXPIRED, ReportCalls): EXPIRED,
    (EXPIRED, MarkAltered): EXPIRED,
    (EXPIRED, Erase): EXPIRED,
    (CANCELLED, View): STAY,
    (CANCELLED, Work): CLOSED,
    (CANCELLED, Respond): CLOSED,
    (CANCELLED, Cancel): CLOSED,
    (CANCELLED, HandBack): CLOSED,
    (CANCELLED, HandBackAsLast): CLOSED,
    (CANCELLED, Expire): STAY,
    (CANCELLED, Remind): STAY,
    (CANCELLED, WarnOfExpiry): STAY,
    (CANCELLED, RecordNotification): CANCELLED,
    (CANCELLED, PassOn): CLOSED,
    (CANCELLED, Link): NOT_COMPLETED,
    (CANCELLED, UseGrant): STAY,
    (CANCELLED, RevokeGrant): STAY,
    (CANCELLED, ReportCalls): CANCELLED,
    (CANCELLED, MarkAltered): CANCELLED,
    (CANCELLED, Erase): CANCELLED,
}

_encode = msgspec.json.Encoder().encode
_BOUND_BY_DEADLINE = frozenset({View, Work, Respond, Cancel, HandBack, HandBackAsLast, PassOn})
_NEEDS_CONTENT = frozenset({View, Work, Respond, HandBack, HandBackAsLast, PassOn})

Changes = dict[str, Any]  # fields of the case and their next values
Fact = tuple[str, dict[str, Any]]
ChangesAndFacts = tuple[Changes, list[Fact]]

# Fields that a closed case does not have.
_CLEARED_ON_CLOSE: Changes = {"progress": None, "reminders": (), "warn_at": None}


class CaseStep(Struct, frozen=True, kw_only=True):
    """The next value of a case and the events that lead to it; no events if nothing changed."""

    case: Case
    events: tuple[Event, ...]
    expected_version: int


def apply(case: Case, command: Command, *, now: datetime, salt: str) -> CaseStep:
    """Return the result of `command` on `case`; raise AlreadyClosed or CaseExpired if it is refused."""
    now = clamp_time(case, now)
    rule = require(case, type(command), now=now)
    if isinstance(rule, Stay) or (isinstance(command, Expire) and now < case.expires_at):
        return CaseStep(case=case, events=(), expected_version=case.version)
    return _build_transition(case, command, rule, now, salt)


def require(case: Case, command: type[Command], *, now: datetime) -> Status | Stay:
    """Return the rule for this command now; raise if table, deadline or altered content refuse it."""
    rule = TRANSITIONS[case.status, command]
    if isinstance(rule, Refuse):
        raise rule.error()
    if _is_too_late(case, command, now):
        raise CaseExpired()
    if case.live and case.altered_at is not None and command in _NEEDS_CONTENT:
        raise ContentAltered()
    return rule


def clamp_time(case: Case, now: datetime) -> datetime:
    """Return `now`, or the latest time of the case if the clock was set back: times never go backwards."""
    if case.version == 1:  # only created
        return max(now, case.created_at)
    if case.changed_at is not None:  # no other time is later
        return max(now, case.changed_at)
    known = (
        case.created_at,
        case.opened_at,
        case.reminder_sent_at,
        case.altered_at,
        case.closed_at,
    )
    handed_back = (one.at for one in case.handed_back)
    return max(now, *handed_back, *(at for at in known if at is not None))


def begin(case: Case, data: dict[str, Any], *, actor: str, salt: str) -> tuple[Case, Event]:
    """Return the first stored value of a case and the event that reports its creation."""
    first = replace(case, version=case.version + 1)
    event = _record(case, (log.CREATED, data), None, case.created_at, actor, salt, first)
    return replace(first, chain=event.digest), event


def _is_too_late(case: Case, command: type[Command], now: datetime) -> bool:
    """Check the deadline when a command is applied, not only when the timer fires (ruling 3)."""
    return case.live and command in _BOUND_BY_DEADLINE and now >= case.expires_at


def _build_transition(case: Case, command: Command, to: Status, now: datetime, salt: str) -> CaseStep:
    changes, facts = _EFFECTS[type(command)](case, command, now)
    if not facts:
        return CaseStep(case=case, events=(), expected_version=case.version)
    following = replace(case, status=to, version=case.version + len(facts), changed_at=now, **changes)
    events: list[Event] = []
    for number, fact in enumerate(facts, start=1):
        state = following if number == len(facts) else None
        events.append(_record(case, fact, events[-1] if events else None, now, command.actor, salt, state))
    last = replace(following, chain=events[-1].digest)
    return CaseStep(case=last, events=tuple(events), expected_version=case.version)


def _record(
    case: Case, fact: Fact, earlier: Event | None, at: datetime, actor: str, salt: str, state: Case | None
) -> Event:
    """Return the event of a fact; `state` is the case after the step, for its last event."""
    name, data = fact
    return log.record(
        case_id=case.id,
        seq=(earlier.seq if earlier else case.version) + 1,
        type=name,
        at=at,
        actor=actor,
        data=_encode({"case_id": case.id, **data}),
        salt=salt,
        previous=earlier.digest if earlier else case.chain,
        state=state,
    )


def _record_view(case: Case, command: Command, now: datetime) -> ChangesAndFacts:
    return {"opened_at": now}, [(stream.OPENED, {"opened_at": now})]


def _save_progress(case: Case, command: Work, now: datetime) -> ChangesAndFacts:
    if case.status is IN_PROGRESS and command.progress == case.progress:
        return {}, []  # pages save often; only changes are logged
    opened_at = case.opened_at or now
    data: dict[str, Any] = {"opened_at": opened_at}
    if command.progress is not None:
        data["progress"] = command.progress
    facts = [] if case.opened_at else [(stream.OPENED, {"opened_at": now})]
    working = {"opened_at": opened_at, "progress": command.progress, "reminders": ()}
    return working, [*facts, (stream.IN_PROGRESS, data)]


def _respond(case: Case, command: Respond, now: datetime) -> ChangesAndFacts:
    closed = {"decision": command.decision, "closed_at": now, **_CLEARED_ON_CLOSE}
    given = [(log.GRANT_GIVEN, {"grant": grant}) for grant in command.grants]
    if command.grants:
        closed["grant_digests"] = {grant.id: compute_grant_digest(grant) for grant in command.grants}
    return closed, [*given, (stream.COMPLETED, {"completed_at": now, "result": command.decision.result})]


def _cancel(case: Case, command: Cancel, now: datetime) -> ChangesAndFacts:
    closed = {"reason": command.reason, "closed_at": now, **_CLEARED_ON_CLOSE}
    data: dict[str, Any] = {"cancelled_at": now}
    if command.reason is not None:
        data["reason"] = command.reason
    return closed, [(stream.CANCELLED, data)]


def _hand_back(case: Case, command: HandBack, now: datetime) -> ChangesAndFacts:
    if any(one.actor == command.actor for one in case.handed_back):
        return {}, []  # a page that is sent twice is one step, and one link cannot fill the log
    step = HandedBack(actor=command.actor, at=now, by=command.by, reason=command.reason)
    data: dict[str, Any] = {"handed_back_at": now}
    if command.by is not None:
        data["handed_back_by"] = command.by
    if command.reason is not None:
        data["reason"] = command.reason
    return {"handed_back": (*case.handed_back, step)}, [(stream.HANDED_BACK, data)]


def _hand_back_as_last(case: Case, command: HandBack, now: datetime) -> ChangesAndFacts:
    handed, facts = _hand_back(case, command, now)
    closed, ending = _cancel(case, Cancel(actor=command.actor, reason=command.reason), now)
    return {**handed, **closed}, [*facts, *ending]


def _expire(case: Case, command: Command, now: datetime) -> ChangesAndFacts:
    closed = {"closed_at": case.expires_at, **_CLEARED_ON_CLOSE}
    data = {"expired_at": case.expires_at, "default_action": case.default_action}
    return closed, [(stream.EXPIRED, data)]


def _remind(case: Case, command: Remind, now: datetime) -> ChangesAndFacts:
    still_due = tuple(at for at in case.reminders if at > command.reminder_at)
    data = {"reminder_at": command.reminder_at, "message": _compute_time_left(case, now)}
    return {"reminders": still_due}, [(stream.REMINDER, data)]


def _warn_of_expiry(case: Case, command: Command, now: datetime) -> ChangesAndFacts:
    return {"warn_at": None}, [(log.EXPIRY_WARNING, {"message": _compute_time_left(case, now)})]


def _record_notification(case: Case, command: RecordNotification, now: datetime) -> ChangesAndFacts:
    if case.erased_at is not None:
        return {}, []
    reminded = {"reminder_sent_at": now} if command.is_reminder and case.live else {}
    return reminded, [(log.NOTIFIED, {"notified_at": now, **command.details})]


def _pass_on(case: Case, command: PassOn, now: datetime) -> ChangesAndFacts:
    widened = {"review_digests": (*case.review_digests, command.review_digest)}
    data: dict[str, Any] = {"passed_on_at": now}
    if command.note is not None:
        data["note"] = command.note
    return widened, [(log.PASSED_ON, data)]


def _record_link(case: Case, command: Link, now: datetime) -> ChangesAndFacts:
    linked = {"next_case_id": command.next_case_id}
    return linked, [(log.LINKED, linked)]


def _use_grant(case: Case, command: UseGrant, now: datetime) -> ChangesAndFacts:
    if case.erased_at is not None:
        return {}, []
    grant = command.grant
    return _note_grant(case, grant), [
        (log.GRANT_USED, {"grant_id": grant.id, "used_at": now, "used": grant.used, "call": command.call})
    ]


def _revoke_grant(case: Case, command: RevokeGrant, now: datetime) -> ChangesAndFacts:
    fact = {"grant_id": command.grant.id, "revoked_at": now}
    return _note_grant(case, command.grant), [(log.GRANT_REVOKED, fact)]


def _note_grant(case: Case, grant: Grant) -> Changes:
    """Return the change that makes the state cover the changed grant."""
    return {"grant_digests": {**case.grant_digests, grant.id: compute_grant_digest(grant)}}


def _report_calls(case: Case, command: ReportCalls, now: datetime) -> ChangesAndFacts:
    earliest = case.closed_at or case.created_at
    new = select_new_receipts(case.receipts, command.receipts, earliest=earliest, now=now)
    if not new or case.erased_at is not None:
        return {}, []  # an agent reports at least once
    return {"receipts": (*case.receipts, *new)}, [(log.CALLS_REPORTED, {"receipts": new})]


def _mark_altered(case: Case, command: Command, now: datetime) -> ChangesAndFacts:
    if case.altered_at is not None or case.erased_at is not None:
        return {}, []
    return {"altered_at": now, "reminders": (), "warn_at": None}, [(log.ALTERED, {"altered_at": now})]


def _erase(case: Case, command: Command, now: datetime) -> ChangesAndFacts:
    if case.erased_at is not None:
        return {}, []
    bare = {
        "decision": None,
        "reason": None,
        "handed_back": (),
        "own_review_url": None,
        "receipts": (),
        "callback_url": None,
        "reader": None,
        "erased_at": now,
    }
    return bare, [(log.ERASED, {"erased_at": now})]


_EFFECTS: Mapping[type[Command], Callable[[Case, Any, datetime], ChangesAndFacts]] = {
    View: _record_view,
    Work: _save_progress,
    Respond: _respond,
    Cancel: _cancel,
    HandBack: _hand_back,
    HandBackAsLast: _hand_back_as_last,
    Expire: _expire,
    Remind: _remind,
    WarnOfExpiry: _warn_of_expiry,
    RecordNotification: _record_notification,
    PassOn: _pass_on,
    Link: _record_link,
    UseGrant: _use_grant,
    RevokeGrant: _revoke_grant,
    ReportCalls: _report_calls,
    MarkAltered: _mark_altered,
    Erase: _erase,
}


def _compute_time_left(case: Case, now: datetime) -> str:
    minutes = max(0, int(((case.expires_at - now).total_seconds() + 30) // 60))  # timers run seconds late
    amount, unit = (minutes // 60, "hour") if minutes >= 120 else (minutes, "minute")
    return f"Review expires in {amount} {unit}{'' if amount == 1 else 's'}"
