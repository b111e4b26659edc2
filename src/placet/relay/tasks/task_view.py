"""The view of a task that the relay answers for: held, running or ended."""

from datetime import datetime

from placet.relay.a2a.builders import build_message, build_task, build_text_part
from placet.relay.a2a.dialects import Dialect, State
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.translation import get_parts, translate_part, translate_task
from placet.relay.tasks.reasons import Timeout, reason_to_metadata
from placet.relay.tasks.task_repository import Task, TaskEnding

BAD_ANSWER = "The agent did not answer properly."
ABANDONED = "The relay was stopped while the agent worked, and does not know what came of it."


def task_view(entry: Task, dialect: Dialect, now: datetime) -> Json:
    """The task as it stands: working while a person or the agent is waited for, then as it ended."""
    ending, at = entry.ending, entry.since or now
    if entry.is_abandoned(now):
        said = _build_status_message(entry, TaskEnding(dialect=dialect, failure=ABANDONED), dialect)
        return _build_task(entry, "failed", entry.until or at, dialect, said=said)
    if entry.hold_id is not None or ending is None:
        metadata = reason_to_metadata(Timeout()) if entry.hold_id is None else entry.hold_metadata
        return _build_task(entry, "working", at, dialect, metadata=metadata)
    if ending.task is not None:
        return translate_task(ending.task, ending.dialect, dialect)
    said = _build_status_message(entry, ending, dialect)
    if ending.metadata is not None:
        return _build_task(entry, "canceled", at, dialect, said=said, metadata=ending.metadata or None)
    return _build_task(entry, "completed" if ending.failure is None else "failed", at, dialect, said=said)


def _build_status_message(entry: Task, ending: TaskEnding, dialect: Dialect) -> Json:
    parts = [translate_part(part, dialect) for part in get_parts(ending.message or {})]
    return build_message(
        message_id=f"{entry.id}-answer",
        role="agent",
        parts=parts or [build_text_part(ending.failure or BAD_ANSWER, dialect)],
        dialect=dialect,
        task_id=entry.id,
        context_id=entry.context_id,
    )


def _build_task(
    entry: Task,
    state: State,
    at: datetime,
    dialect: Dialect,
    *,
    said: Json | None = None,
    metadata: Json | None = None,
) -> Json:
    return build_task(
        task_id=entry.id,
        context_id=entry.context_id or entry.id,
        state=state,
        at=at,
        dialect=dialect,
        metadata=metadata,
        status_message=said,
    )
