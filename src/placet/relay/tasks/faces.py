"""What callers see of a task that the relay tells of itself: held, under way, or ended."""

from datetime import datetime

from placet.relay.a2a.building import message, task, text_part
from placet.relay.a2a.dialects import Dialect, State
from placet.relay.a2a.reading import Json
from placet.relay.a2a.translation import parts_of, translated, translated_task
from placet.relay.tasks.reasons import Timeout, as_metadata
from placet.relay.tasks.taskbook import Ending, Entry

BROKEN = "The agent did not answer properly."
GIVEN_UP = "The relay was stopped while the agent worked, and does not know what came of it."


def face_of(entry: Entry, dialect: Dialect, now: datetime) -> Json:
    """The task as it stands: working while a person or the agent is waited for, then as it ended."""
    ending, at = entry.ending, entry.since or now
    if entry.given_up(now):
        said = _said(entry, Ending(dialect=dialect, failure=GIVEN_UP), dialect)
        return _task(entry, "failed", entry.until or at, dialect, said=said)
    if entry.mask is not None or ending is None:
        metadata = as_metadata(Timeout()) if entry.mask is None else entry.mask.metadata
        return _task(entry, "working", at, dialect, metadata=metadata)
    if ending.task is not None:
        return translated_task(ending.task, ending.dialect, dialect)
    said = _said(entry, ending, dialect)
    if ending.metadata is not None:
        return _task(entry, "canceled", at, dialect, said=said, metadata=ending.metadata or None)
    return _task(entry, "completed" if ending.failure is None else "failed", at, dialect, said=said)


def _said(entry: Entry, ending: Ending, dialect: Dialect) -> Json:
    parts = [translated(part, dialect) for part in parts_of(ending.message or {})]
    return message(
        message_id=f"{entry.id}-answer",
        role="agent",
        parts=parts or [text_part(ending.failure or BROKEN, dialect)],
        dialect=dialect,
        task_id=entry.id,
        context_id=entry.context_id,
    )


def _task(
    entry: Entry,
    state: State,
    at: datetime,
    dialect: Dialect,
    *,
    said: Json | None = None,
    metadata: Json | None = None,
) -> Json:
    return task(
        task_id=entry.id,
        context_id=entry.context_id or entry.id,
        state=state,
        at=at,
        dialect=dialect,
        metadata=metadata,
        status_message=said,
    )
