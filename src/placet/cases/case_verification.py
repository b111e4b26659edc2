"""Verification of one stored case: its rows against the chain of its events."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from placet.cases import events as log
from placet.cases.case import Case, Offer, compute_grant_digest, matches_digest
from placet.cases.deadlines import get_due_at
from placet.cases.events import Event, find_broken_link, matches_state
from placet.cases.grant import Grant
from placet.protocol import stream
from placet.protocol.poll import Status

STATE_UNREADABLE = "The stored state cannot be read."
STATE_CHANGED = "The stored state is not the one that the last event recorded."

_encode = msgspec.json.encode
_decode_case = msgspec.json.Decoder(Case).decode
_decode_offer = msgspec.json.Decoder(Offer).decode
_decode_any = msgspec.json.Decoder().decode
_STATUS_AFTER: Mapping[str, Status] = {
    stream.OPENED: Status.OPENED,
    stream.IN_PROGRESS: Status.IN_PROGRESS,
    stream.COMPLETED: Status.COMPLETED,
    stream.EXPIRED: Status.EXPIRED,
    stream.CANCELLED: Status.CANCELLED,
}
_CLOSING_TIMES: Mapping[str, str] = {
    stream.COMPLETED: "completed_at",
    stream.EXPIRED: "expired_at",
    stream.CANCELLED: "cancelled_at",
}
_LOGGED_FIELDS = ("type", "offer_digest", "expires_at", "opened_at", "next_case_id", "altered_at")


class StoredGrant(Struct, frozen=True, kw_only=True):
    """The row of a grant."""

    grant: Grant
    open_until: datetime | None


class StoredCase(Struct, frozen=True, kw_only=True):
    """All rows of a case, as they are stored."""

    number: int
    id: str
    owner: str | None
    status: str
    version: int
    due_at: datetime | None
    waits_until: datetime | None
    closed_at: datetime | None
    state: bytes
    offer: bytes | None
    events: Sequence[Event] = ()
    grants: Sequence[StoredGrant] = ()


def read_state(stored: StoredCase) -> Case | None:
    """Return the state of a case, or None if it cannot be read."""
    try:
        return _decode_case(stored.state)
    except (msgspec.DecodeError, RecursionError, OverflowError, ValueError):
        return None


def find_problems(stored: StoredCase) -> list[str]:
    """Return what does not match the log, in sentences; nothing if the case is intact."""
    case = read_state(stored)
    if case is None:
        return [STATE_UNREADABLE]
    return [
        *_find_chain_problems(case, stored),
        *_find_state_problems(case, stored),
        *_find_column_problems(case, stored),
        *_find_erasure_problems(case, stored),
        *_find_offer_problems(case, stored),
        *_find_grant_problems(case, stored),
    ]


def _find_chain_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    broken = find_broken_link(stored.events, head=case.chain)
    if broken is not None:
        yield f"The chain is broken at event {broken}."
    if stored.events and stored.events[0].type != log.CREATED:
        yield f"The first event is not {log.CREATED}."


def _find_state_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    last = stored.events[-1] if stored.events else None
    if case.id != stored.id or last is None:
        yield STATE_CHANGED
        return
    if last.state_digest is not None and not matches_state(last, stored.state):
        yield STATE_CHANGED
    yield from _compare_with_data(case, stored)


def _compare_with_data(case: Case, stored: StoredCase) -> Iterator[str]:
    """Compare the state with what the data of the events says.

    The last event records the digest of the state, but not if the state was changed before that event. Cases
    from earlier versions have no such digest.
    """
    state: dict[str, Any] = msgspec.to_builtins(case)
    logged: dict[str, Any] = {"version": stored.events[-1].seq, "status": Status.PENDING.value}
    creator = stored.events[0].actor
    logged["owner"] = creator.removeprefix("key:") if creator != "anonymous" else None
    for event in stored.events:
        data = _read_data(event)
        logged.update({name: data[name] for name in _LOGGED_FIELDS if name in data})
        if event.type in _STATUS_AFTER:
            logged["status"] = _STATUS_AFTER[event.type].value
        if _CLOSING_TIMES.get(event.type) in data:
            logged["closed_at"] = data[_CLOSING_TIMES[event.type]]
        if event.type == stream.CANCELLED and case.erased_at is None:
            logged["reason"] = data.get("reason")
    changed = [name for name, value in logged.items() if name not in _DEFAULTED and state.get(name) != value]
    yield from (f"{name} is not what the events say." for name in changed)
    completed = [_read_data(event) for event in stored.events if event.type == stream.COMPLETED]
    result = state["decision"]["result"] if "decision" in state else None
    if case.erased_at is None and result != (completed[-1].get("result") if completed else None):
        yield "The result is not what the events say."
    if case.status.value != logged["status"]:
        yield "status is not what the events say."
    if case.erased_at is None and list(case.recipients) != _read_data(stored.events[0]).get("recipients", []):
        yield "recipients is not what the events say."
    passed_on = sum(event.type == log.PASSED_ON for event in stored.events)
    if len(case.review_digests) != 1 + len(case.recipients) + passed_on:
        yield "The number of review links is not what the events say."


_DEFAULTED = ("status",)  # left out of the encoded state while it has its default


def _read_data(event: Event) -> dict[str, Any]:
    try:
        data = _decode_any(event.data or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _find_column_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    is_waiting = case.live
    is_listed = not case.live and case.erased_at is None
    expected: dict[str, object] = {
        "owner": case.owner,
        "status": case.status.value,
        "version": case.version,
        "waits_until": case.expires_at if is_waiting else None,
        "closed_at": case.closed_at if is_listed else None,
    }
    for name, value in expected.items():
        if getattr(stored, name) != value:
            yield f"The column {name} does not match the state."
    if not _is_due_time(case, stored.due_at):
        yield "The column due_at does not match the state."


def _is_due_time(case: Case, stored_due_at: datetime | None) -> bool:
    """Check the timer. Of a closed case it depends on the retention period, which may have changed since."""
    earliest = get_due_at(case, keep_for=timedelta(0))
    if case.live or earliest is None or stored_due_at is None:
        return stored_due_at == earliest
    return stored_due_at >= earliest


def _find_erasure_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    """Check that the content is erased where the log says so, and nowhere else."""
    erased = next((event.seq for event in stored.events if event.type == log.ERASED), None)
    if (erased is None) != (case.erased_at is None):
        yield "The state and the events disagree about whether the content was erased."
    for event in stored.events:
        is_expected = erased is not None and event.seq < erased
        if (event.data is None or event.salt is None) and not is_expected:
            yield f"The data of event {event.seq} is missing, and no event says that it was erased."
        if (event.data is not None or event.salt is not None) and is_expected:
            yield f"The data of event {event.seq} was erased, and is there again."


def _find_offer_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    if case.erased_at is not None:
        if stored.offer is not None:
            yield "The offer was erased, and is there again."
    elif stored.offer is None:
        yield "The offer is missing, and no event says that it was erased."
    elif not _is_recorded_offer(case, stored.offer):
        yield "The offer is not the one that the case was created with."


def _is_recorded_offer(case: Case, encoded: bytes) -> bool:
    """Check the digest, and that there is nothing besides what the digest covers."""
    try:
        offer, members = _decode_offer(encoded), _decode_any(encoded)
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return False
    written = _encode(offer)
    is_complete = _encode(members, order="sorted") == _encode(_decode_any(written), order="sorted")
    return matches_digest(case, offer) and is_complete and len(encoded) == len(written)


def _find_grant_problems(case: Case, stored: StoredCase) -> Iterator[str]:
    given = {event.seq: _read_data(event) for event in stored.events if event.type == log.GRANT_GIVEN}
    found = [data["grant"] for data in given.values() if isinstance(data.get("grant"), dict)]
    logged: dict[Any, Any] = {grant.get("id"): grant for grant in found}
    rows = {row.grant.id: row for row in stored.grants}
    if len(given) != len(stored.grants):
        yield f"The events give {len(given)} grants, and {len(stored.grants)} are stored."
    for grant_id in {**dict.fromkeys(case.grant_digests), **logged}:
        if grant_id not in rows:
            yield f"The grant {grant_id} is missing."
    for grant_id, row in rows.items():
        digest = case.grant_digests.get(grant_id)
        is_noted = digest == compute_grant_digest(row.grant) if digest is not None else not case.grant_digests
        if not is_noted or not _is_recorded_content(case, row, logged.get(grant_id)):
            yield f"The grant {grant_id} is not what the events say."


def _is_recorded_content(case: Case, row: StoredGrant, logged: dict[str, Any] | None) -> bool:
    """Check what is erased with the case, and until when calls are covered."""
    grant = row.grant
    if case.erased_at is not None:
        return (grant.patterns, grant.granted_by, row.open_until) == (None, "", None)
    is_over = grant.revoked_at is not None or grant.uses_left == 0 or grant.patterns is None
    if logged is None or row.open_until != (None if is_over else grant.expires_at):
        return False
    content = msgspec.to_builtins({"patterns": grant.patterns, "granted_by": grant.granted_by})
    return bool(content == {name: logged.get(name) for name in content})
