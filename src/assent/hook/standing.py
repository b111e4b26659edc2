"""Reading a thread: what it waits for, and what came of answers that were given before."""

from collections.abc import Mapping
from datetime import datetime

from assent.errors import ThreadBusy
from assent.hook.answers import Feedback
from assent.hook.calls import ToolCall
from assent.hook.checkpoint import Checkpoint
from assent.hook.events import AgentResult, Job, Outcome
from assent.hook.feedback import ToolFeedback, Verdict
from assent.hook.interruption import InterruptionMetadata, interrupt
from assent.hook.messages import calls_of
from assent.hook.tools import Tool
from assent.hook.values import made, replace

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
        return still_waiting(checkpoint, checkpoint.interruption)
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
            replace(waiting, id=_way_to(call) + waiting.id, path=(call.name, *waiting.path))
            for call in inside
            for waiting in stopped[call.id].undecided
        ],
        automatic=[],
        now=now,
        state={"messages": checkpoint.messages},
        expires_at=min(ends, default=None),
        default="hold" if any(inner.default == "hold" for inner in stopped.values()) else "reject",
    )


def decisions_inside(checkpoint: Checkpoint, call: ToolCall) -> dict[str, Verdict]:
    """What was decided about the calls of the agent inside this one."""
    waiting = () if checkpoint.interruption is None else checkpoint.interruption.tool_feedbacks
    return {
        each.id.removeprefix(_way_to(call)): checkpoint.verdicts[each.id]
        for each in waiting
        if each.path and each.id.startswith(_way_to(call)) and each.id in checkpoint.verdicts
    }


def job_for(checkpoint: Checkpoint, call: ToolCall, tool: Tool) -> Job:
    """This call, to be run now."""
    members = {
        "call": call,
        "tool": tool,
        "key": f"{checkpoint.thread_id}:{len(checkpoint.messages)}:{call.id}",
        "thread_id": "" if tool.agent is None else thread_inside(checkpoint, call),
        "decisions": {} if tool.agent is None else decisions_inside(checkpoint, call),
    }
    return made(Job, members)


def thread_inside(checkpoint: Checkpoint, call: ToolCall) -> str:
    """Where the agent inside this call keeps its thread."""
    return f"{checkpoint.thread_id}/{len(checkpoint.messages)}/{call.id}"


def taken_inside(checkpoint: Checkpoint, passed: Mapping[str, Verdict]) -> Mapping[str, Verdict] | None:
    """All decisions so far, if any of those passed on is about calls that wait here; they were checked."""
    waiting = {} if checkpoint.interruption is None else waiting_by_id(checkpoint.interruption)
    new = {call_id: verdict for call_id, verdict in passed.items() if call_id in waiting}
    return {**new, **checkpoint.verdicts} if new else None


def _way_to(call: ToolCall) -> str:
    """What the names of the calls inside this one begin with; a model's own slashes must not look like it."""
    return f"{call.id.replace('~', '~0').replace('/', '~1')}/"


def still_waiting(checkpoint: Checkpoint, interruption: InterruptionMetadata) -> InterruptionMetadata:
    """The interruption as it stands: what was decided so far, and where the rest can be."""
    return replace(interruption.with_verdicts(checkpoint.verdicts), case=checkpoint.case)


def turn_of(checkpoint: Checkpoint) -> int:
    """How many times the model has replied."""
    return sum(message["role"] == "assistant" for message in checkpoint.messages)


def answered(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Remember that the interruption was answered, and how long the thread was when that was over."""
    if checkpoint.interruption is None:
        return checkpoint
    newest = list(checkpoint.resumed.items())[-_REMEMBERED:]
    return replace(checkpoint, resumed={**dict(newest), checkpoint.interruption.id: length})


def answered_before(checkpoint: Checkpoint, feedback: Feedback | None) -> bool:
    """Whether the thread has gone on from these answers already."""
    if checkpoint.stage == "running":
        return False
    if isinstance(feedback, InterruptionMetadata):
        return feedback.id in checkpoint.resumed
    return checkpoint.stage == "ready" and bool(checkpoint.resumed)


def waiting_by_id(interruption: InterruptionMetadata) -> dict[str, ToolFeedback]:
    """The calls that wait, by their ids."""
    return {waiting.id: waiting for waiting in interruption.tool_feedbacks}
