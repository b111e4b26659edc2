"""What one write does to the database, as data: statements that are run elsewhere."""

from collections.abc import Iterable

from msgspec import Struct

from placet.cases.case import Case
from placet.cases.events import Event
from placet.ports.case_store import CaseCreation, CaseUpdate
from placet.ports.outbox_store import Delivery
from placet.stores.sqlite import rows
from placet.stores.sqlite.grants import grant_row, use_row
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.rows import Params, encode, micros

INSERT_CASE = QUERIES["insert_case"]
INSERT_OFFER = QUERIES["insert_offer"]
INSERT_EVENT = QUERIES["insert_event"]
UPDATE_CASE = QUERIES["update_case"]
LINK_CASE = QUERIES["link_case"]
INSERT_REPLAY = QUERIES["insert_replay"]
INSERT_ENDPOINT = QUERIES["insert_endpoint"]
INSERT_DELIVERY = QUERIES["insert_delivery"]
INSERT_SPENT_EVIDENCE = QUERIES["insert_spent_evidence"]
BLANK_EVENTS = QUERIES["blank_events"]
BLANK_DELIVERIES = QUERIES["blank_deliveries"]
DELETE_OFFER = QUERIES["delete_offer"]
DELETE_DRAFT = QUERIES["delete_draft"]
SETTLE_DELIVERY = QUERIES["settle_delivery"]
BLANK_DELIVERY = QUERIES["blank_delivery_of_erased_case"]
DISABLE_ENDPOINT = QUERIES["disable_endpoint"]
INSERT_GRANT = QUERIES["insert_grant"]
INSERT_GRANT_USE = QUERIES["insert_grant_use"]
BLANK_GRANTS = QUERIES["blank_grants"]

Statement = tuple[str, Params]


class Operation(Struct, frozen=True):
    """Guards, each of which must touch a row or the whole write is refused; then the rest of the write."""

    guards: tuple[Statement, ...] = ()
    statements: tuple[Statement, ...] = ()
    changed: tuple[str, ...] = ()
    """Cases to tell of."""
    tenants: tuple[str, ...] = ()
    """Tenants to tell of, whose records changed."""


def filing_operation(filing: CaseCreation, state: bytes, offer: bytes) -> Operation:
    """The write that opens a case; `state` and `offer` are the case and what it shows, encoded."""
    case, replay, link, endpoint = filing.case, filing.idempotency, filing.link, filing.endpoint
    due_at = micros(filing.due_at)
    opening = (case.id, case.owner, case.status, case.version, due_at, state, *_placed(case))
    guards: list[Statement] = [(INSERT_CASE, opening)]
    statements = [(INSERT_OFFER, (case.id, offer)), *_appended(filing.events)]
    if replay is not None:
        guards.append((INSERT_REPLAY, (*rows.replay_row(replay), micros(case.created_at))))
    if link is not None:
        earlier = link.case
        version = (earlier.id, link.expected_version, earlier.status, earlier.version, encode(earlier))
        guards.append((LINK_CASE, version))
        statements.extend(_appended(link.events))
    if endpoint is not None:
        statements.append((INSERT_ENDPOINT, rows.endpoint_row(endpoint)))
    changed = (case.id,) if link is None else (case.id, link.case.id)
    return Operation(tuple(guards), tuple(statements), changed)


def commitment_operation(commitment: CaseUpdate, state: bytes) -> Operation:
    """The write that moves a case on; `state` is the case, encoded."""
    step, case = commitment.step, commitment.step.case
    due_at = micros(commitment.due_at)
    version = (case.id, step.expected_version, case.status, case.version)
    guards: list[Statement] = [(UPDATE_CASE, (*version, due_at, state, *_placed(case)))]
    for digest in commitment.spent_evidence:
        guards.append((INSERT_SPENT_EVIDENCE, (digest,)))
    if commitment.grant_use is not None:
        guards.append((INSERT_GRANT_USE, use_row(commitment.grant_use)))
    statements = _appended(step.events)
    for owed in commitment.deliveries:
        statements.append((INSERT_DELIVERY, rows.delivery_row(owed)))
    for grant in commitment.grants:
        statements.append((INSERT_GRANT, grant_row(grant)))
    if commitment.clear_draft:
        statements.append((DELETE_DRAFT, (case.id,)))
    return Operation(tuple(guards), tuple(statements), (case.id,))


def erasure_operation(commitment: CaseUpdate, state: bytes) -> Operation:
    """The write that moves a case on and removes its content."""
    moved, step = commitment_operation(commitment, state), commitment.step
    content = (
        (BLANK_EVENTS, (step.case.id, step.expected_version)),
        (BLANK_DELIVERIES, (step.case.id,)),
        (DELETE_OFFER, (step.case.id,)),
        (DELETE_DRAFT, (step.case.id,)),
        (BLANK_GRANTS, (step.case.id,)),
    )
    return Operation(moved.guards, (*moved.statements, *content), moved.changed)


def settlement_operation(delivery: Delivery, *, disable_endpoint: bool) -> Operation:
    """The write that records one attempt."""
    statements: list[Statement] = [
        (SETTLE_DELIVERY, rows.outcome_row(delivery)),
        (BLANK_DELIVERY, (delivery.id,)),
    ]
    if disable_endpoint:
        disabled_at = micros(delivery.settled_at or delivery.created_at)
        statements.append((DISABLE_ENDPOINT, (delivery.owner, delivery.target, disabled_at)))
    return Operation(statements=tuple(statements))


def single(sql: str, params: Params = (), *, guarded: bool = False) -> Operation:
    """The write that is one statement."""
    return Operation(((sql, params),)) if guarded else Operation((), ((sql, params),))


def _placed(case: Case) -> tuple[int | None, int | None]:
    """Until when a case waits and when it was closed, for lists of either; of an erased one neither."""
    if case.live:
        return micros(case.expires_at), None
    return None, micros(case.closed_at) if case.erased_at is None else None


def _appended(events: Iterable[Event]) -> list[Statement]:
    return [(INSERT_EVENT, rows.event_row(event)) for event in events]
