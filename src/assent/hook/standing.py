"""Reading a thread: what it waits for, and what came of answers that were given before."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from assent.errors import ThreadBusy
from assent.hook.answers import Feedback
from assent.hook.checkpoint import Checkpoint
from assent.hook.events import AgentResult, Outcome
from assent.hook.feedback import ToolFeedback
from assent.hook.interruption import InterruptionMetadata, interrupt
from assent.hook.messages import calls_of

_REMEMBERED = 20
"""So many answered interruptions of a thread are told from new ones."""


def stored_outcome(checkpoint: Checkpoint, feedback: Feedback | None = None) -> Outcome:
    """What came of answers that were given before; nothing runs. Raises ThreadBusy while it is coming."""
    given = feedback.id if isinstance(feedback, InterruptionMetadata) else ""
    last = max(checkpoint.resumed.values(), default=0)
    for index in range(checkpoint.resumed.get(given, last), len(checkpoint.messages)):
        message = checkpoint.messages[index]
        if message["role"] == "assistant" and not message.get("tool_calls"):
            return AgentResult(thread_id=checkpoint.thread_id, messages=checkpoint.messages[: index + 1])
    if checkpoint.stage == "paused" and checkpoint.interruption is not None:
        return checkpoint.interruption.with_verdicts(checkpoint.verdicts)
    raise ThreadBusy


def from_inside(
    checkpoint: Checkpoint, stopped: Mapping[str, InterruptionMetadata], *, now: datetime
) -> InterruptionMetadata:
    """What agents inside have stopped, as one interruption: every call named by the way to it."""
    inside = [call for call in calls_of(checkpoint.messages[-1]) if call.id in stopped]
    ends = [inner.expires_at for inner in stopped.values() if inner.expires_at is not None]
    return interrupt(
        thread_id=checkpoint.thread_id,
        turn=turn_of(checkpoint),
        feedbacks=[
            replace(waiting, id=f"{call.id}/{waiting.id}", path=(call.name, *waiting.path))
            for call in inside
            for waiting in stopped[call.id].undecided
        ],
        automatic=[],
        now=now,
        state={"messages": checkpoint.messages},
        expires_at=min(ends, default=None),
        default="hold" if any(inner.default == "hold" for inner in stopped.values()) else "reject",
    )


def turn_of(checkpoint: Checkpoint) -> int:
    """How many times the model has replied."""
    return sum(message["role"] == "assistant" for message in checkpoint.messages)


def answered(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Remember that the interruption was answered, and how long the thread was when that was over."""
    if checkpoint.interruption is None:
        return checkpoint
    newest = list(checkpoint.resumed.items())[-_REMEMBERED:]
    return replace(checkpoint, resumed={**dict(newest), checkpoint.interruption.id: length})


def waiting_by_id(interruption: InterruptionMetadata) -> dict[str, ToolFeedback]:
    """The calls that wait, by their ids."""
    return {waiting.id: waiting for waiting in interruption.tool_feedbacks}
