"""What must be true of every case in the store and of every acknowledged one; nothing here acts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from bench.faults.ledger import AcknowledgedAnswer, Promise
from placet.cases.case import Case, Offer, compute_offer_digest
from placet.cases.events import CREATED, Event, find_broken_link
from placet.protocol.poll import Status
from placet.protocol.stream import COMPLETED, FINAL

STUCK_AFTER = timedelta(seconds=3)


class ServerRun(Struct, frozen=True, kw_only=True):
    """One run of the server: when its process was started, and when it served; never, if it did not."""

    launched_at: datetime
    ready_at: datetime = datetime.max.replace(tzinfo=UTC)


class StoredCase(Struct, frozen=True, kw_only=True):
    """A case as the store has it."""

    case: Case
    offer: Offer | None
    events: Sequence[Event]


def find_broken_promises(promise: Promise, found: StoredCase | None, *, now: datetime) -> Iterator[str]:
    """What was acknowledged and is not so."""
    if found is None:
        yield "the case was acknowledged and is lost"
        return
    stored = read_stored_answer(found.case)
    if promise.taken is not None:
        if stored is None:
            yield f"its answer was acknowledged and is lost; the case is {found.case.status}"
        elif stored != promise.taken:
            yield f"its answer changed from {promise.taken} to {stored}"
    elif stored is not None and not any(_is_same_answer(stored, sent) for sent in promise.unsure):
        yield f"it has an answer that nobody gave: {stored}"
    if found.case.status is Status.EXPIRED and now < promise.expires_at:
        yield "it expired before its time"


def find_torn_writes(found: StoredCase) -> Iterator[str]:
    """Signs that a write was torn or done twice."""
    case, events = found.case, found.events
    if found.offer is None:
        yield "it has no offer"
    elif compute_offer_digest(case.id, found.offer) != case.offer_digest:
        yield "its offer is not the one that was shown"
    broken_at = find_broken_link(events, head=case.chain)
    if broken_at is not None:
        yield f"its chain breaks at event {broken_at}"
    if len(events) != case.version:
        yield f"it is at version {case.version} and has {len(events)} events"
    if not events or events[0].type != CREATED:
        yield "its first event does not report that it was opened"
    endings = [event.type for event in events if event.type in FINAL]
    if len(endings) > 1 or (len(endings) == 1) == case.live:
        yield f"it is {case.status} and ended {len(endings)} times"
    if (case.status is Status.COMPLETED) != (endings == [COMPLETED]) or (
        (case.status is Status.COMPLETED) != (case.decision is not None)
    ):
        yield f"it is {case.status}, its events say {endings} and its decision is {case.decision}"


def is_overdue(case: Case, life: ServerRun, *, now: datetime) -> bool:
    """Whether the case should have expired by now, in this life of the server."""
    return case.live and now > max(case.expires_at, life.ready_at) + STUCK_AFTER


def measure_lateness(found: StoredCase, lives: Sequence[ServerRun]) -> timedelta:
    """How long after its deadline a case expired, counting only while a server was there to do it."""
    expired_at = found.events[-1].at
    life = next(life for life in reversed(lives) if life.launched_at <= expired_at)
    return max(timedelta(), expired_at - max(found.case.expires_at, life.ready_at))


def read_stored_answer(case: Case) -> AcknowledgedAnswer | None:
    """The answer the store holds."""
    if case.decision is None:
        return None
    result = case.decision.result
    return AcknowledgedAnswer(action=result.action, data=result.data or {}, completed_at=case.closed_at)


def _is_same_answer(stored: AcknowledgedAnswer, sent: AcknowledgedAnswer) -> bool:
    return (stored.action, stored.data) == (sent.action, sent.data)
