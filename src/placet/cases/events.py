"""The events of a case: an append-only chain in which each event holds the digest of the previous one.

The data of an event can be erased and the chain still verifies, because the digest covers a salted digest of
the data. The salt is erased with the data, so that the digest does not reveal an erased answer. The last
event of each step also covers a salted digest of the case's state, so that a changed state is found.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.cases.case import NO_EVENT, Case
from placet.protocol import stream

CREATED = "review.created"
EXPIRY_WARNING = "review.expiry_warning"
NOTIFIED = "review.notified"
PASSED_ON = "review.passed_on"
LINKED = "review.linked"
ALTERED = "review.altered"
ERASED = "review.erased"
GRANT_GIVEN = "grant.given"
GRANT_USED = "grant.used"
GRANT_REVOKED = "grant.revoked"
CALLS_REPORTED = "calls.reported"

EVENT_TYPES = (
    CREATED,
    *sorted(stream.STREAMED),
    EXPIRY_WARNING,
    NOTIFIED,
    PASSED_ON,
    LINKED,
    ALTERED,
    GRANT_GIVEN,
    GRANT_USED,
    GRANT_REVOKED,
    CALLS_REPORTED,
    ERASED,
)

_UNKNOWN_CHAIN = "-" * 64  # in place of the digest that covers the state
_encode = msgspec.json.Encoder().encode


class Event(Struct, frozen=True, kw_only=True):
    """One event of a case; `data` is the JSON that streams and callbacks send."""

    case_id: str
    seq: int
    type: str
    at: datetime
    actor: str
    data: bytes | None
    salt: str | None
    data_digest: str
    previous: str
    digest: str
    state_digest: str | None = None
    """The digest of the state after this event; "" if another event of the same step follows.

    None: the event is from before this digest was introduced.
    """


def record(
    *,
    case_id: str,
    seq: int,
    type: str,
    at: datetime,
    actor: str,
    data: bytes,
    salt: str,
    previous: str,
    state: Case | None = None,
) -> Event:
    """Return a new event for the chain that ends in `previous`; `state` is the case after its last event."""
    data_digest = _digest_data(salt, data)
    state_digest = "" if state is None else _digest_data(salt, _encode(replace(state, chain=_UNKNOWN_CHAIN)))
    digest = _compute_link_digest(case_id, seq, type, at, actor, data_digest, previous, state_digest)
    return Event(
        case_id=case_id,
        seq=seq,
        type=type,
        at=at,
        actor=actor,
        data=data,
        salt=salt,
        data_digest=data_digest,
        previous=previous,
        digest=digest,
        state_digest=state_digest,
    )


def find_broken_link(events: Iterable[Event], *, head: str | None = None) -> int | None:
    """Return the sequence number of the first event that breaks the chain, or None if it is intact.

    Events removed from the end leave no trace in the chain. Pass `head`, the case's `chain`, to find those.
    """
    previous, expected = NO_EVENT, 0
    for expected, event in enumerate(events, start=1):
        if event.seq != expected or event.previous != previous or not _is_intact(event):
            return expected
        previous = event.digest
    return None if head in (None, previous) else expected + 1


def matches_state(event: Event, state: bytes) -> bool:
    """Return whether this is the encoded state of the case after the event."""
    chain = b'"chain":"%s"'
    recorded = state.replace(chain % event.digest.encode(), chain % _UNKNOWN_CHAIN.encode(), 1)
    return event.state_digest == _digest_data(event.salt or "", recorded)


def _is_intact(event: Event) -> bool:
    if event.data is not None and event.data_digest != _digest_data(event.salt or "", event.data):
        return False
    return event.digest == _compute_link_digest(
        event.case_id,
        event.seq,
        event.type,
        event.at,
        event.actor,
        event.data_digest,
        event.previous,
        event.state_digest,
    )


def _digest_data(salt: str, data: bytes) -> str:
    return hashlib.sha256(salt.encode() + b"\0" + data).hexdigest()


def _compute_link_digest(
    case_id: str,
    seq: int,
    type: str,
    at: datetime,
    actor: str,
    data_digest: str,
    previous: str,
    state_digest: str | None,
) -> str:
    link = [case_id, seq, type, at, actor, data_digest, previous]
    if state_digest is not None:  # events from before this digest was introduced have none
        link.append(state_digest)
    return hashlib.sha256(_encode(link)).hexdigest()
