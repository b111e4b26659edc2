"""Storage for the relay's tasks, conversations and push notification configurations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from placet.ports.audit_store import AuditRow

TaskKind = Literal["task", "context", "webhook", "webhooks"]
"""Tasks and conversations; webhooks by their own ids, and the list of a task's webhooks."""
TaskKey = tuple[str, str, TaskKind, str]
"""Tenant, agent, kind and id of a row."""


class TaskRow(Struct, frozen=True, kw_only=True):
    """What the relay knows of a task, a conversation or a webhook, by the id its caller uses."""

    tenant: str
    agent: str
    kind: TaskKind
    id: str
    body: bytes
    saved_at: datetime

    @property
    def key(self) -> TaskKey:
        """Return what identifies the row."""
        return (self.tenant, self.agent, self.kind, self.id)


class TaskStore(Protocol):
    """Stores task rows by tenant, agent, kind and id."""

    async def get_task(self, tenant: str, agent: str, kind: str, id: str) -> TaskRow | None:
        """Return the row with this id, or None if it does not exist."""
        ...

    async def save_tasks(self, tasks: Sequence[TaskRow], *, events: Sequence[AuditRow] = ()) -> None:
        """Write rows, new or changed, with their audit events, all or none."""
        ...
