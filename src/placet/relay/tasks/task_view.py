"""Build the A2A view of a task that the relay answers for: held, running or ended."""

from datetime import datetime

from placet.relay.a2a.dialects import Dialect, TaskState
from placet.relay.a2a.json_format import (
    Json,
    build_message,
    build_task,
    build_text_part,
    get_parts,
    translate_part,
    translate_task,
)
from placet.relay.task import Task, TaskEnding, TaskStatus
from placet.relay.task_reasons import Timeout, reason_to_metadata

BAD_ANSWER = "The agent's response is not valid."
ABANDONED = "The relay stopped while it waited for the agent's response. The outcome is unknown."


def task_view(task: Task, dialect: Dialect, now: datetime) -> Json:
    """Return the task as the caller sees it: working until the decision or the reply, then its end."""
    ending, at = task.ending, task.since or now
    if task.is_abandoned(now):
        status_message = _build_status_message(task, TaskEnding(dialect=dialect, failure=ABANDONED), dialect)
        return _build_task(task, "failed", task.until or at, dialect, status_message=status_message)
    if ending is None:
        metadata = task.hold_metadata if task.status is TaskStatus.HELD else reason_to_metadata(Timeout())
        return _build_task(task, "working", at, dialect, metadata=metadata)
    if ending.task is not None:
        return translate_task(ending.task, ending.dialect, dialect)
    status_message = _build_status_message(task, ending, dialect)
    if ending.metadata is not None:
        return _build_task(
            task, "canceled", at, dialect, status_message=status_message, metadata=ending.metadata or None
        )
    return _build_task(
        task, "completed" if ending.failure is None else "failed", at, dialect, status_message=status_message
    )


def _build_status_message(task: Task, ending: TaskEnding, dialect: Dialect) -> Json:
    parts = [translate_part(part, dialect) for part in get_parts(ending.message or {})]
    return build_message(
        message_id=f"{task.id}-answer",
        role="agent",
        parts=parts or [build_text_part(ending.failure or BAD_ANSWER, dialect)],
        dialect=dialect,
        task_id=task.id,
        context_id=task.context_id,
    )


def _build_task(
    task: Task,
    state: TaskState,
    at: datetime,
    dialect: Dialect,
    *,
    status_message: Json | None = None,
    metadata: Json | None = None,
) -> Json:
    return build_task(
        task_id=task.id,
        context_id=task.context_id or task.id,
        state=state,
        at=at,
        dialect=dialect,
        metadata=metadata,
        status_message=status_message,
    )
