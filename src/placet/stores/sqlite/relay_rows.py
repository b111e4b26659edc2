"""How the relay's rows lie in SQLite."""

from placet.ports.audit_store import AuditRow, Trace
from placet.ports.config_store import ConfigRecord
from placet.ports.hold_store import HoldRow
from placet.ports.task_store import TaskRow
from placet.stores.sqlite.rows import Params, Row, micros, moment


def record_row(record: ConfigRecord) -> Params:
    """A record as `insert_record` takes it."""
    return record.tenant, record.kind, record.id, record.rev, micros(record.saved_at), record.body


def record_from(row: Row) -> ConfigRecord:
    """A record as `select_record` gives it."""
    tenant, kind, id, rev, saved_at, body = row
    return ConfigRecord(tenant=tenant, kind=kind, id=id, rev=rev, saved_at=moment(saved_at), body=body)


def task_row(task: TaskRow) -> Params:
    """A task as `upsert_task` takes it."""
    return task.tenant, task.agent, task.kind, task.id, micros(task.saved_at), task.body


def task_from(row: Row) -> TaskRow:
    """A task as `select_task` gives it."""
    tenant, agent, kind, id, saved_at, body = row
    return TaskRow(tenant=tenant, agent=agent, kind=kind, id=id, saved_at=moment(saved_at), body=body)


def hold_row(hold: HoldRow) -> Params:
    """A hold as `insert_hold` takes it."""
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
        micros(hold.created_at),
        micros(hold.resolved_at),
        hold.body,
        hold.envelope,
    )


def hold_from(row: Row) -> HoldRow:
    """A hold as `select_holds` gives it."""
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
        created_at=moment(created_at),
        resolved_at=moment(resolved_at),
        body=body,
        envelope=envelope,
    )


def audit_row(event: AuditRow) -> Params:
    """An event as `insert_audit_event` takes it."""
    return (
        event.id,
        event.tenant,
        micros(event.at),
        event.type,
        event.action,
        event.transport,
        event.source_agent,
        event.source_user,
        event.sink_agent,
        event.correlation_id,
        event.task_id,
        event.body,
    )


def audit_from(row: Row) -> AuditRow:
    """An event as `select_audit_events` gives it."""
    id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, *rest = row
    correlation_id, task_id, body = rest
    return AuditRow(
        id=id,
        tenant=tenant,
        at=moment(at),
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
    """A trace as `select_traces` gives it."""
    correlation_id, began_at, ended_at, events = row
    return Trace(
        correlation_id=correlation_id, began_at=moment(began_at), ended_at=moment(ended_at), events=events
    )
