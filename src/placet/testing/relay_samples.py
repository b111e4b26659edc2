"""Sample rows of the relay for tests of stores."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.ports.config_store import ConfigRecord
from placet.ports.hold_store import HoldCreation, HoldRow
from placet.ports.store import Store
from placet.ports.task_store import TaskRow
from placet.testing.clock import DAYBREAK
from placet.testing.samples import new_id, sample_creation


def sample_record(**changes: Any) -> ConfigRecord:
    """Return a new policy of the tenant acme."""
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
    """Return a task of the agent clerk."""
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
    """Return a held message from desk to clerk."""
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


async def create_held_case(
    store: Store, hold: HoldRow, *, tasks: Sequence[TaskRow] = (), events: Sequence[AuditRow] = ()
) -> None:
    """Write a new case with this hold, its tasks and its audit events."""
    creation = sample_creation(id=hold.case_id)
    held = HoldCreation(hold=hold, tasks=tuple(tasks), events=tuple(events))
    await store.create_case(replace(creation, hold=held))


def sample_audit(**changes: Any) -> AuditRow:
    """Return the audit event of a message from desk to clerk that passed."""
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
