"""What the relay keeps, plain enough to fill any store."""

from typing import Any

from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigRecord
from placet.ports.hold_store import HoldRow
from placet.ports.task_store import TaskRow
from placet.testing.clock import DAYBREAK
from placet.testing.samples import new_id


def sample_record(**changes: Any) -> ConfigRecord:
    """A policy of the tenant acme, new."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "kind": "policy",
        "id": new_id("policy"),
        "rev": 1,
        "body": b'{"name":"no secrets"}',
        "saved_at": DAYBREAK,
    }
    return ConfigRecord(**fields | changes)


def sample_task(**changes: Any) -> TaskRow:
    """A task of the agent clerk."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "agent": "clerk",
        "kind": "task",
        "id": new_id("task"),
        "body": b'{"owner":"desk"}',
        "saved_at": DAYBREAK,
    }
    return TaskRow(**fields | changes)


def sample_hold(**changes: Any) -> HoldRow:
    """A message from desk to clerk that waits."""
    fields: dict[str, Any] = {
        "id": new_id("hold"),
        "tenant": "acme",
        "case_id": new_id("review"),
        "status": "PENDING",
        "rev": 1,
        "detection_source": "POLICY_ESCALATION",
        "source": "desk",
        "sink": "clerk",
        "task_id": new_id("task"),
        "policy_name": "no secrets",
        "correlation_id": new_id("trace"),
        "created_at": DAYBREAK,
        "body": b'{"summary":"a number"}',
        "envelope": b'{"jsonrpc":"2.0"}\n\x00\xff',
    }
    return HoldRow(**fields | changes)


def sample_audit(**changes: Any) -> AuditRow:
    """A message from desk to clerk that passed."""
    fields: dict[str, Any] = {
        "id": new_id("event"),
        "tenant": "acme",
        "at": DAYBREAK,
        "type": "COMMUNICATION_AUDIT",
        "action": "LOG",
        "transport": "JSONRPC",
        "source_agent": "desk",
        "source_user": None,
        "sink_agent": "clerk",
        "correlation_id": new_id("trace"),
        "task_id": None,
        "body": b'{"message":"hello"}',
    }
    return AuditRow(**fields | changes)
