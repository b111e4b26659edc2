"""Reading a thread's checkpoint: what it waits for, what is to run, and outcomes of earlier answers."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from placet.errors import AlreadyDecided, HookError, ModelMisbehaved, ThreadBusy
from placet.hook import turn
from placet.hook.answer_validation import Feedback, reject_undecided
from placet.hook.checkpoint import Checkpoint, Message
from placet.hook.decision_record import (
    MAX_RECORDS,
    describe_contradictions,
    find_contradictions,
    record_decisions,
)
from placet.hook.events import AgentOutcome, AgentResult, ToolJob
from placet.hook.feedback import ToolFeedback
from placet.hook.frozen_values import build_frozen, replace
from placet.hook.interruption import InterruptionMetadata, create_interruption
from placet.hook.messages import build_user_message, read_tool_calls
from placet.hook.result_texts import FailedResult, apply_verdict
from placet.hook.tool_call import ToolCall
from placet.hook.tools import Tool, describe_missing_tool


def find_stored_outcome(checkpoint: Checkpoint, feedback: Feedback | None = None) -> AgentOutcome:
    """Return the outcome of answers that were given before; raises ThreadBusy while they are processed.

    Raises ModelMisbehaved if there is no outcome and never will be.
    """
    given = feedback.id if isinstance(feedback, InterruptionMetadata) else ""
    last = max(checkpoint.resumed.values(), default=0)
    for index in range(checkpoint.resumed.get(given, last), len(checkpoint.messages)):
        if _is_final_reply(checkpoint.messages[index]):
            return AgentResult(thread_id=checkpoint.thread_id, messages=checkpoint.messages[: index + 1])
    if checkpoint.stage == "paused" and (waiting := turn.show_interruption(checkpoint)) is not None:
        return waiting
    if checkpoint.stage == "ready":
        raise ModelMisbehaved("The model was still calling tools when the agent reached max_turns.")
    raise ThreadBusy


def take_queued_message(checkpoint: Checkpoint) -> Checkpoint:
    """Return the thread with the first message that was queued while it was paused.

    Callers that answered an interruption before also get the outcome of that message.
    """
    first, *rest = checkpoint.queued
    before = checkpoint.messages[:-1]
    since = max((index for index, message in enumerate(before) if _is_final_reply(message)), default=-1)
    messages = (*checkpoint.messages, build_user_message(first))
    resumed = {
        interruption: length if length <= since else len(messages)
        for interruption, length in checkpoint.resumed.items()
    }
    return checkpoint.next(stage="running", messages=messages, queued=tuple(rest), resumed=resumed)


def _is_final_reply(message: Message) -> bool:
    return message["role"] == "assistant" and not message.get("tool_calls")


def plan_jobs(
    checkpoint: Checkpoint, calls: Iterable[ToolCall], tools: Mapping[str, Tool], *, begins: bool
) -> tuple[dict[str, str], list[ToolJob]]:
    """Return the results of the calls that need not run, and the jobs for the rest."""
    results, jobs = dict(checkpoint.results), []
    stopped = () if checkpoint.interruption is None else checkpoint.interruption.tool_feedbacks
    begins = begins and not any(waiting.path for waiting in stopped)
    own = _index_own_calls(checkpoint)
    for call in calls:
        if call.id in results:
            continue
        decided, refused = _apply_decision(checkpoint, own, call)
        if refused is not None:
            results[call.id] = refused
        elif decided.name not in tools:
            results[call.id] = FailedResult(describe_missing_tool(decided.name))
        else:
            jobs.append(build_job(checkpoint, decided, tools[decided.name], begins=begins))
    return results, jobs


def group_jobs(jobs: Iterable[ToolJob]) -> list[list[ToolJob]]:
    """Return the jobs in groups that run one after another: only parallel tools share a group."""
    groups: list[list[ToolJob]] = []
    for job in jobs:
        if groups and job.tool.parallel and groups[-1][-1].tool.parallel:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def mark_started(checkpoint: Checkpoint, group: Iterable[ToolJob]) -> Checkpoint:
    """Return the checkpoint with these jobs among the started calls."""
    return turn.claim_calls(checkpoint, [job.call.id for job in group])


def find_lost_calls(
    checkpoint: Checkpoint, calls: Iterable[ToolCall], tools: Mapping[str, Tool]
) -> list[str]:
    """Return the calls that a dead process may have started and that must not run again."""
    own = _index_own_calls(checkpoint)

    def may_run(call: ToolCall) -> bool:
        decided, refused = _apply_decision(checkpoint, own, call)
        tool = tools.get(decided.name)
        return refused is not None or (tool is not None and (tool.repeatable or tool.agent is not None))

    begun = (call for call in calls if call.id in checkpoint.started and call.id not in checkpoint.results)
    return [call.id for call in begun if not may_run(call)]


def apply_verdicts(checkpoint: Checkpoint, calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Return the calls as they are to run."""
    own = _index_own_calls(checkpoint)
    return [_apply_decision(checkpoint, own, call)[0] for call in calls]


def _index_own_calls(checkpoint: Checkpoint) -> dict[str, ToolFeedback]:
    """Return the agent's own waiting calls by id; calls of inner agents may share their ids."""
    waiting = () if checkpoint.interruption is None else checkpoint.interruption.tool_feedbacks
    return {each.id: each for each in waiting if not each.path}


def _apply_decision(
    checkpoint: Checkpoint, own: Mapping[str, ToolFeedback], call: ToolCall
) -> tuple[ToolCall, str | None]:
    """Return the call as it is to run, and the text that replaces its result if it is not."""
    if call.id in checkpoint.changed:
        return ToolCall(**checkpoint.changed[call.id]), None
    if call.id not in own:
        return call, None
    refused = turn.find_refusal(checkpoint, call.id)
    return apply_verdict(own[call.id].reuse_call(call), checkpoint.verdicts.get(call.id)), refused


def merge_inner_interruptions(
    checkpoint: Checkpoint,
    stopped: Mapping[str, InterruptionMetadata],
    *,
    agents: Mapping[str, str],
    moment: turn.TurnMoment,
) -> InterruptionMetadata:
    """Return the interruptions of inner agents as one, with call ids that name the inner agent's call.

    `agents` are the tools that are agents: tool -> the agent's name.
    """
    calls = apply_verdicts(checkpoint, read_tool_calls(checkpoint.messages[-1]))
    ends = [inner.expires_at for inner in stopped.values() if inner.expires_at is not None]
    return create_interruption(
        moment.new_id,
        thread_id=checkpoint.thread_id,
        turn=count_replies(checkpoint),
        feedbacks=[
            replace(
                waiting, id=_build_inner_id_prefix(call) + waiting.id, path=(agents[call.name], *waiting.path)
            )
            for call in calls
            if call.id in stopped
            for waiting in stopped[call.id].undecided
        ],
        automatic=[],
        now=moment.now,
        state={"messages": checkpoint.messages},
        expires_at=min(ends, default=None),
        default="hold" if any(inner.default == "hold" for inner in stopped.values()) else "reject",
    )


def find_edited_calls(checkpoint: Checkpoint) -> dict[str, dict[str, object]]:
    """Return the edited calls that have not ended, as they continue after the inner agent's interruption."""
    calls = [call for call in read_tool_calls(checkpoint.messages[-1]) if call.id not in checkpoint.results]
    going_on = apply_verdicts(checkpoint, calls)
    return {call.id: ran.to_dict() for call, ran in zip(calls, going_on, strict=True) if ran != call}


def select_inner_decisions(checkpoint: Checkpoint, call: ToolCall) -> turn.PassedDecisions:
    """Return the decisions on the calls of the agent inside this call, by its own call ids."""
    waiting = () if checkpoint.interruption is None else checkpoint.interruption.tool_feedbacks
    way = _build_inner_id_prefix(call)
    return {
        each.id.removeprefix(way): (replace(each, path=each.path[1:]), checkpoint.verdicts[each.id])
        for each in waiting
        if each.path and each.id.startswith(way) and each.id in checkpoint.verdicts
    }


def build_job(checkpoint: Checkpoint, call: ToolCall, tool: Tool, *, begins: bool) -> ToolJob:
    """Return the job that runs this call."""
    members = {
        "call": call,
        "tool": tool,
        "key": f"{checkpoint.thread_id}:{len(checkpoint.messages)}:{call.id}",
        "thread_id": "" if tool.agent is None else build_inner_thread_id(checkpoint, call),
        "decisions": {} if tool.agent is None else select_inner_decisions(checkpoint, call),
        "case": None if tool.agent is None else _find_inner_case(checkpoint, call),
        "begins": begins,
    }
    return build_frozen(ToolJob, members)


def _find_inner_case(checkpoint: Checkpoint, call: ToolCall) -> dict[str, str] | None:
    """Return the case that decides the calls inside this one, with the prefix that their ids have there."""
    case = checkpoint.case
    if case is None:
        return None
    return {"case_id": case["case_id"], "prefix": case.get("prefix", "") + _build_inner_id_prefix(call)}


def build_inner_thread_id(checkpoint: Checkpoint, call: ToolCall) -> str:
    """Return the id of the inner agent's thread."""
    return f"{checkpoint.thread_id}/{len(checkpoint.messages)}/{call.id}"


def _build_inner_id_prefix(call: ToolCall) -> str:
    """Return the prefix of the ids of the calls inside this one; slashes in the model's id are escaped."""
    return f"{call.id.replace('~', '~0').replace('/', '~1')}/"


def count_replies(checkpoint: Checkpoint) -> int:
    """Return how many times the model has replied."""
    return sum(message["role"] == "assistant" for message in checkpoint.messages)


def record_answered(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Remember that the interruption was answered, and the length of the thread at that time."""
    if checkpoint.interruption is None:
        return checkpoint
    newest = list(checkpoint.resumed.items())[-MAX_RECORDS:]
    interruption = checkpoint.interruption
    verdicts = reject_undecided(interruption, checkpoint.verdicts)  # what a message cancelled did not run
    return replace(
        checkpoint,
        resumed={**dict(newest), interruption.id: length},
        decided=record_decisions(checkpoint.decided, interruption.with_verdicts(verdicts)),
    )


def refuse_contradiction(checkpoint: Checkpoint, feedback: Feedback | None) -> None:
    """Raise AlreadyDecided if the answers contradict decisions from which the thread has continued."""
    records, outcome = checkpoint.decided, None
    if checkpoint.stage == "running" and checkpoint.interruption is not None:
        records = record_decisions(records, checkpoint.interruption.with_verdicts(checkpoint.verdicts))
    if problems := find_contradictions(records, feedback):
        with suppress(HookError):
            outcome = find_stored_outcome(checkpoint, feedback)
        raise AlreadyDecided(describe_contradictions(problems), outcome=outcome, problems=problems)


def was_answered(checkpoint: Checkpoint, feedback: Feedback | None) -> bool:
    """Return whether the thread has already continued from these answers."""
    if checkpoint.stage == "running":
        return False
    if isinstance(feedback, InterruptionMetadata):
        return feedback.id in checkpoint.resumed
    return checkpoint.stage == "ready" and bool(checkpoint.resumed)
