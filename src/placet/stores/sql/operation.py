"""Write operations as data: the statements of one write, which a `Writer` runs."""

from collections.abc import Iterable

from msgspec import Struct

from placet.cases.case import Case
from placet.cases.events import Event
from placet.ports.audit_store import AuditRow
from placet.ports.case_store import CaseCreation, CaseUpdate
from placet.ports.outbox_store import Delivery
from placet.ports.task_store import TaskRow
from placet.stores.sql import relay_rows, rows
from placet.stores.sql.grants import row_from_grant, row_from_use
from placet.stores.sql.rows import Params, encode, to_micros

INSERT_CASE = "insert_case"
INSERT_OFFER = "insert_offer"
INSERT_EVENT = "insert_event"
UPDATE_CASE = "update_case"
LINK_CASE = "link_case"
INSERT_REPLAY = "insert_replay"
INSERT_ENDPOINT = "insert_endpoint"
INSERT_DELIVERY = "insert_delivery"
INSERT_SPENT_EVIDENCE = "insert_spent_evidence"
BLANK_EVENTS = "blank_events"
BLANK_DELIVERIES = "blank_deliveries"
DELETE_OFFER = "delete_offer"
DELETE_DRAFT = "delete_draft"
DELETE_ATTEMPTS = "delete_verification_attempts_of_case"
SETTLE_DELIVERY = "settle_delivery"
BLANK_DELIVERY = "blank_delivery_of_erased_case"
DISABLE_ENDPOINT = "disable_endpoint"
INSERT_GRANT = "insert_grant"
INSERT_GRANT_USE = "insert_grant_use"
BLANK_GRANTS = "blank_grants"
INSERT_HOLD = "insert_hold"
UPSERT_TASK = "upsert_task"

Statement = tuple[str, Params]


class WriteOperation(Struct, frozen=True):
    """The statements of one write, by name. It is refused if one of its guards changes no row."""

    guards: tuple[Statement, ...] = ()
    statements: tuple[Statement, ...] = ()
    changed: tuple[str, ...] = ()
    """The ids of the cases that it changes."""
    tenants: tuple[str, ...] = ()
    """The tenants whose configuration records it changes."""
    audit_events: tuple[Params, ...] = ()
    """Audit events, each appended to the chain of its tenant."""


def build_creation_operation(creation: CaseCreation, state: bytes, offer: bytes) -> WriteOperation:
    """Return the write that creates a case; `state` and `offer` are the encoded case and offer."""
    case, record, link = creation.case, creation.idempotency, creation.link
    due_at = to_micros(creation.due_at)
    columns = (case.id, case.owner, case.status, case.version, due_at, state, *_build_inbox_columns(case))
    guards: list[Statement] = [(INSERT_CASE, columns)]
    statements = [(INSERT_OFFER, (case.id, offer)), *_list_event_statements(creation.events)]
    if record is not None:
        guards.append((INSERT_REPLAY, (*rows.row_from_idempotency(record), to_micros(case.created_at))))
    if link is not None:
        earlier = link.case
        version = (earlier.id, link.expected_version, earlier.status, earlier.version, encode(earlier))
        guards.append((LINK_CASE, version))
        statements.extend(_list_event_statements(link.events))
    if creation.endpoint is not None:
        statements.append((INSERT_ENDPOINT, rows.row_from_endpoint(creation.endpoint)))
    if creation.hold is not None:
        guards.append((INSERT_HOLD, relay_rows.row_from_hold(creation.hold.hold)))
        statements.extend(build_task_statements(creation.hold.tasks))
    statements.extend(_list_delivery_statements(creation.deliveries))
    changed = (case.id,) if link is None else (case.id, link.case.id)
    audited = list_audit_rows(() if creation.hold is None else creation.hold.events)
    return WriteOperation(tuple(guards), tuple(statements), changed, audit_events=audited)


def update_operation(update: CaseUpdate, state: bytes) -> WriteOperation:
    """Return the write that updates a case; `state` is the encoded case."""
    step, case = update.step, update.step.case
    due_at = to_micros(update.due_at)
    version = (case.id, step.expected_version, case.status, case.version)
    guards: list[Statement] = [(UPDATE_CASE, (*version, due_at, state, *_build_inbox_columns(case)))]
    for digest in update.spent_evidence:
        guards.append((INSERT_SPENT_EVIDENCE, (digest,)))
    if update.grant_use is not None:
        guards.append((INSERT_GRANT_USE, row_from_use(update.grant_use)))
    statements = _list_event_statements(step.events)
    statements.extend(_list_delivery_statements(update.deliveries))
    for grant in update.grants:
        statements.append((INSERT_GRANT, row_from_grant(grant)))
    if update.clear_draft:
        statements.append((DELETE_DRAFT, (case.id,)))
    return WriteOperation(tuple(guards), tuple(statements), (case.id,))


def build_erasure_operation(update: CaseUpdate, state: bytes) -> WriteOperation:
    """Return the write that updates a case and removes its content."""
    operation, step = update_operation(update, state), update.step
    content = (
        (BLANK_EVENTS, (step.case.id, step.expected_version)),
        (BLANK_DELIVERIES, (step.case.id,)),
        (DELETE_OFFER, (step.case.id,)),
        (DELETE_DRAFT, (step.case.id,)),
        (DELETE_ATTEMPTS, (step.case.id,)),
        (BLANK_GRANTS, (step.case.id,)),
    )
    return WriteOperation(operation.guards, (*operation.statements, *content), operation.changed)


def attempt_operation(delivery: Delivery, *, disable_endpoint: bool) -> WriteOperation:
    """Return the write that records one delivery attempt."""
    statements: list[Statement] = [
        (SETTLE_DELIVERY, rows.row_from_outcome(delivery)),
        (BLANK_DELIVERY, (delivery.id,)),
    ]
    if disable_endpoint:
        disabled_at = to_micros(delivery.settled_at or delivery.created_at)
        statements.append((DISABLE_ENDPOINT, (delivery.owner, delivery.target, disabled_at)))
    return WriteOperation(statements=tuple(statements))


def build_single_statement(name: str, params: Params = (), *, guarded: bool = False) -> WriteOperation:
    """Return the write of one statement."""
    return WriteOperation(((name, params),)) if guarded else WriteOperation((), ((name, params),))


def build_task_statements(tasks: Iterable[TaskRow]) -> Iterable[Statement]:
    """Return the statements that write task rows, new or changed."""
    return ((UPSERT_TASK, relay_rows.row_from_task(task)) for task in tasks)


def list_audit_rows(events: Iterable[AuditRow]) -> tuple[Params, ...]:
    """Return the rows of audit events."""
    return tuple(relay_rows.row_from_audit(event) for event in events)


def _build_inbox_columns(case: Case) -> tuple[int | None, int | None]:
    """Return the deadline of an open case, or the closing time of a closed one that is not erased."""
    if case.live:
        return to_micros(case.expires_at), None
    return None, to_micros(case.closed_at) if case.erased_at is None else None


def _list_delivery_statements(deliveries: Iterable[Delivery]) -> list[Statement]:
    return [(INSERT_DELIVERY, rows.row_from_delivery(delivery)) for delivery in deliveries]


def _list_event_statements(events: Iterable[Event]) -> list[Statement]:
    return [(INSERT_EVENT, rows.row_from_event(event)) for event in events]
