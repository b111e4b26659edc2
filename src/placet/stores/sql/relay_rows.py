"""Conversion between the relay's values and rows."""

import os

from placet.cases.audit_chain import digest_body, digest_outline
from placet.cases.case import NO_EVENT
from placet.ports.audit_store import AuditRow, Trace
from placet.ports.config_store import ConfigRecord
from placet.ports.hold_store import HoldRow
from placet.ports.task_store import TaskRow
from placet.stores.sql.rows import Params, Row, datetime_from, to_micros

SALT_BYTES = 16


def row_from_record(record: ConfigRecord) -> Params:
    """Return the parameters of `insert_record`."""
    return record.tenant, record.kind, record.id, record.rev, to_micros(record.saved_at), record.body


def record_from(row: Row) -> ConfigRecord:
    """Convert a row of `select_record`."""
    tenant, kind, id, rev, saved_at, body = row
    return ConfigRecord(tenant=tenant, kind=kind, id=id, rev=rev, saved_at=datetime_from(saved_at), body=body)


def row_from_task(task: TaskRow) -> Params:
    """Return the parameters of `upsert_task`."""
    return task.tenant, task.agent, task.kind, task.id, to_micros(task.saved_at), task.body


def task_from(row: Row) -> TaskRow:
    """Convert a row of `select_task`."""
    tenant, agent, kind, id, saved_at, body = row
    return TaskRow(tenant=tenant, agent=agent, kind=kind, id=id, saved_at=datetime_from(saved_at), body=body)


def row_from_hold(hold: HoldRow) -> Params:
    """Return the parameters of `insert_hold`."""
    return (
        hold.id,
        hold.tenant,
        hold.case_id,
        hold.rev,
        hold.status,
        hold.detection_source,
        hold.source,
        hold.sink,
        hold.task_id,
        hold.policy_name,
        hold.correlation_id,
        to_micros(hold.created_at),
        to_micros(hold.resolved_at),
        hold.body,
        hold.envelope,
    )


def hold_from(row: Row) -> HoldRow:
    """Convert a row of `select_holds`."""
    id, tenant, case_id, rev, status, detection_source, source, sink, task_id, policy_name, *rest = row
    correlation_id, created_at, resolved_at, body, envelope = rest
    return HoldRow(
        id=id,
        tenant=tenant,
        case_id=case_id,
        rev=rev,
        status=status,
        detection_source=detection_source,
        source=source,
        sink=sink,
        task_id=task_id,
        policy_name=policy_name,
        correlation_id=correlation_id,
        created_at=datetime_from(created_at),
        resolved_at=datetime_from(resolved_at),
        body=body,
        envelope=envelope,
    )


def row_from_audit(event: AuditRow) -> Params:
    """Return the parameters of `insert_audit_event`, with a new salt."""
    salt = os.urandom(SALT_BYTES).hex()
    return (
        event.id,
        event.tenant,
        to_micros(event.at),
        event.type,
        event.action,
        event.transport,
        event.source_agent,
        event.source_user,
        event.sink_agent,
        event.correlation_id,
        event.task_id,
        event.body,
        salt,
        digest_body(salt, event.body),
        digest_outline(event.body),
        NO_EVENT,
    )


def audit_from(row: Row) -> AuditRow:
    """Convert a row of `select_audit_events`."""
    id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, *rest = row
    correlation_id, task_id, body = rest
    return AuditRow(
        id=id,
        tenant=tenant,
        at=datetime_from(at),
        type=type,
        action=action,
        transport=transport,
        source_agent=source_agent,
        source_user=source_user,
        sink_agent=sink_agent,
        correlation_id=correlation_id,
        task_id=task_id,
        body=body,
    )


def trace_from(row: Row) -> Trace:
    """Convert a row of `select_traces`."""
    correlation_id, began_at, ended_at, events = row
    return Trace(
        correlation_id=correlation_id,
        began_at=datetime_from(began_at),
        ended_at=datetime_from(ended_at),
        events=events,
    )
