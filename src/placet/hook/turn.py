"""The life of a stopped turn: stop, ask, answer, lapse, claim, run, finish. Pure.

Every rule about a stopped call is in TRANSITIONS. A turn is a generator: it yields what a driver has to do
(evaluate, save, ask, poll) and receives the result. `ReactAgent`, the gate, the decorator and all adapters
are drivers of these generators. Nothing else decides whether a call runs.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from placet.cases.execution_outcomes import ExecutionOutcome, NotRunReason
from placet.errors import (
    AlreadyDecided,
    CheckpointConflict,
    HookError,
    InvalidFeedback,
    NothingToResume,
    ThreadBusy,
    ThreadPaused,
    Unavailable,
)
from placet.hook.answer_validation import Feedback, Verdicts, reject_undecided, validate_answers
from placet.hook.case_outcome import CaseOutcome
from placet.hook.checkpoint import Checkpoint, GrantedCalls
from placet.hook.decision_record import describe_contradictions, find_contradictions, record_decisions
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict, contradicts
from placet.hook.frozen_values import replace
from placet.hook.interruption import InterruptionMetadata, create_interruption
from placet.hook.json_text import digest_json
from placet.hook.result_texts import OUTCOME_UNKNOWN, FailedResult, apply_verdict, describe_refusal
from placet.hook.tool_call import Schemas, ToolCall

if TYPE_CHECKING:
    from placet.hook.approval_rules import NewMessagePolicy, ReviewRequirement

T = TypeVar("T")
DECIDED_ELSEWHERE = "The calls were decided elsewhere."


# The life of one call


class CallState(StrEnum):
    """Where a call of a stopped turn is."""

    WAITING = "waiting"
    APPROVED = "approved"
    """It may run, and no process has started it."""
    RUNNING = "running"
    RAN = "ran"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It was started, and how it ended will never be known."""
    ANSWERED = "answered"
    """A person answered in the tool's place."""
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    NOT_CLAIMED = "not_claimed"
    """It was approved, and the turn ended before a process started it."""


class CallEvent(StrEnum):
    """What can happen to a call."""

    APPROVE = "approve"
    """It is approved, as requested or with changes."""
    ANSWER = "answer"
    REJECT = "reject"
    LAPSE = "lapse"
    """The time to decide is over."""
    WITHDRAW = "withdraw"
    SUPERSEDE = "supersede"
    ASK_AGAIN = "ask_again"
    """Its approval does not count: it was edited into a call that needs its own, or its grant has ended."""
    CLAIM = "claim"
    """A process is about to run it."""
    RECLAIM = "reclaim"
    """Its process died, and the tool is repeatable."""
    LOSE = "lose"
    """Its process died, and the tool must not run twice."""
    GIVE_BACK = "give_back"
    """It was claimed and did not begin."""
    FINISH = "finish"
    FAIL = "fail"
    RELEASE = "release"
    """The turn is over."""


@dataclass(frozen=True, slots=True)
class RefuseEvent:
    """The event is refused with this error, and the call stays as it is."""

    error: type[HookError]


_W, _A, _R = CallState.WAITING, CallState.APPROVED, CallState.RUNNING
_DECIDED, _UNDECIDED, _BUSY = RefuseEvent(AlreadyDecided), RefuseEvent(ThreadPaused), RefuseEvent(ThreadBusy)
CallRule = CallState | RefuseEvent


def _end(state: CallState, same: CallEvent) -> dict[CallEvent, CallRule]:
    """Return the row of a call that is over: only a decision that says something else is refused."""
    decisions = {CallEvent.APPROVE, CallEvent.ANSWER, CallEvent.REJECT} - {same}
    return {event: _DECIDED if event in decisions else state for event in CallEvent}


TRANSITIONS: Mapping[CallState, Mapping[CallEvent, CallRule]] = {
    _W: {
        CallEvent.APPROVE: _A,
        CallEvent.ANSWER: CallState.ANSWERED,
        CallEvent.REJECT: CallState.REJECTED,
        CallEvent.LAPSE: CallState.TIMED_OUT,
        CallEvent.WITHDRAW: CallState.WITHDRAWN,
        CallEvent.SUPERSEDE: CallState.SUPERSEDED,
        CallEvent.ASK_AGAIN: _W,
        CallEvent.CLAIM: _UNDECIDED,
        CallEvent.RECLAIM: _UNDECIDED,
        CallEvent.LOSE: _UNDECIDED,
        CallEvent.GIVE_BACK: _W,
        CallEvent.FINISH: _UNDECIDED,
        CallEvent.FAIL: _UNDECIDED,
        CallEvent.RELEASE: CallState.WITHDRAWN,
    },
    _A: {
        CallEvent.APPROVE: _A,
        CallEvent.ANSWER: _DECIDED,
        CallEvent.REJECT: _DECIDED,
        CallEvent.LAPSE: _A,  # it was decided in time
        CallEvent.WITHDRAW: _A,
        CallEvent.SUPERSEDE: CallState.SUPERSEDED,
        CallEvent.ASK_AGAIN: _W,
        CallEvent.CLAIM: _R,
        CallEvent.RECLAIM: _R,
        CallEvent.LOSE: _A,
        CallEvent.GIVE_BACK: _A,
        CallEvent.FINISH: CallState.RAN,  # a report is a fact, even if the claim was given back meanwhile
        CallEvent.FAIL: CallState.FAILED,
        CallEvent.RELEASE: CallState.NOT_CLAIMED,
    },
    _R: {
        CallEvent.APPROVE: _R,
        CallEvent.ANSWER: _DECIDED,
        CallEvent.REJECT: _DECIDED,
        CallEvent.LAPSE: _R,
        CallEvent.WITHDRAW: _R,
        CallEvent.SUPERSEDE: _R,
        CallEvent.ASK_AGAIN: _DECIDED,
        CallEvent.CLAIM: _BUSY,
        CallEvent.RECLAIM: _R,
        CallEvent.LOSE: CallState.UNKNOWN,
        CallEvent.GIVE_BACK: _A,
        CallEvent.FINISH: CallState.RAN,
        CallEvent.FAIL: CallState.FAILED,
        CallEvent.RELEASE: CallState.UNKNOWN,
    },
    CallState.RAN: _end(CallState.RAN, CallEvent.APPROVE),
    CallState.FAILED: _end(CallState.FAILED, CallEvent.APPROVE),
    CallState.UNKNOWN: _end(CallState.UNKNOWN, CallEvent.APPROVE),
    CallState.NOT_CLAIMED: _end(CallState.NOT_CLAIMED, CallEvent.APPROVE),
    CallState.ANSWERED: _end(CallState.ANSWERED, CallEvent.ANSWER),
    CallState.REJECTED: _end(CallState.REJECTED, CallEvent.REJECT),
    CallState.TIMED_OUT: _end(CallState.TIMED_OUT, CallEvent.REJECT),
    CallState.WITHDRAWN: _end(CallState.WITHDRAWN, CallEvent.REJECT),
    CallState.SUPERSEDED: _end(CallState.SUPERSEDED, CallEvent.REJECT),
}

NOT_RUN: Mapping[CallState, NotRunReason] = {
    CallState.REJECTED: NotRunReason.REJECTED,
    CallState.TIMED_OUT: NotRunReason.TIMED_OUT,
    CallState.WITHDRAWN: NotRunReason.WITHDRAWN,
    CallState.SUPERSEDED: NotRunReason.SUPERSEDED,
    CallState.FAILED: NotRunReason.FAILED,
    CallState.UNKNOWN: NotRunReason.FAILED,
    CallState.NOT_CLAIMED: NotRunReason.NOT_CLAIMED,
}
"""The states in which a call has not done its work, with the reason that is reported."""

_RUNNING_DECISIONS = (FeedbackResult.APPROVED, FeedbackResult.EDITED)
_OUTCOMES: Mapping[CallState | None, ExecutionOutcome] = {
    CallState.RAN: ExecutionOutcome.RAN,
    **{state: ExecutionOutcome(reason) for state, reason in NOT_RUN.items()},
}
"""What is reported of a call that has ended."""
_EVENT_OF_REASON = {
    None: CallEvent.REJECT,
    NotRunReason.TIMED_OUT: CallEvent.LAPSE,
    NotRunReason.WITHDRAWN: CallEvent.WITHDRAW,
    NotRunReason.SUPERSEDED: CallEvent.SUPERSEDE,
}
_STATE_OF_REASON: dict[NotRunReason, CallState] = {
    reason: state for state, reason in NOT_RUN.items() if reason != NotRunReason.FAILED
}


def apply(state: CallState, event: CallEvent) -> CallState:
    """Return the state of a call after an event; raise the error with which it is refused."""
    rule = TRANSITIONS[state][event]
    if isinstance(rule, RefuseEvent):
        raise rule.error()
    return rule


def find_call_state(thread: Checkpoint, call_id: str) -> CallState | None:
    """Return where a call of the thread's turn is; None if the turn has no such call."""
    if call_id in thread.ends:
        return CallState(thread.ends[call_id])
    verdict = thread.verdicts.get(call_id)
    if verdict is None:
        if (interruption := thread.interruption) is None:
            return None
        if any(waiting.id == call_id for waiting in interruption.tool_feedbacks):
            return _W
        if not any(call.id == call_id for call in interruption.tools_automatically_approved):
            return None
    elif verdict.decision is FeedbackResult.RESPONDED:
        return CallState.ANSWERED
    elif verdict.decision is FeedbackResult.REJECTED:
        return _STATE_OF_REASON[verdict.not_run or NotRunReason.REJECTED]
    if call_id in thread.results:
        return CallState.RAN
    if call_id in thread.started:
        return _R
    # Calls that need no review wait until the others of their turn are decided.
    return _W if verdict is None and thread.stage == "paused" else _A


def claim_calls(thread: Checkpoint, calls: Collection[str], *, lost: Collection[str] = ()) -> Checkpoint:
    """Return the thread with these calls started; those in `lost` ended with their process."""
    for call_id in calls:
        state = find_call_state(thread, call_id)
        if state is not None:
            apply(state, CallEvent.RECLAIM if state is _R else CallEvent.CLAIM)
    ends = {}
    for call_id in lost:
        ends[call_id] = str(apply(find_call_state(thread, call_id) or _R, CallEvent.LOSE))
    return replace(
        thread,
        started=tuple(dict.fromkeys((*thread.started, *calls))),
        results={**thread.results, **dict.fromkeys(lost, OUTCOME_UNKNOWN)} if lost else thread.results,
        ends={**thread.ends, **ends} if ends else thread.ends,
    )


def end_unclaimed_calls(thread: Checkpoint) -> Checkpoint:
    """Return a decided turn that is over: approved calls that no process started were not claimed."""
    ends = {}
    for call_id, verdict in thread.verdicts.items():
        if verdict.decision in _RUNNING_DECISIONS:
            state = find_call_state(thread, call_id) or _A
            following = apply(state, CallEvent.RELEASE)
            if following is not state:
                ends[call_id] = str(following)
    return replace(thread, ends={**thread.ends, **ends}) if ends else thread


def has_unclaimed_calls(thread: Checkpoint) -> bool:
    """Return whether a call of the turn waits, or may run and was never started."""
    stopped = require_interruption(thread)
    ids = (
        *(each.id for each in stopped.tool_feedbacks),
        *(call.id for call in stopped.tools_automatically_approved),
    )
    return any(find_call_state(thread, call_id) in (_W, _A) for call_id in ids)


def find_new_ends(before: Checkpoint, after: Checkpoint) -> dict[str, ExecutionOutcome]:
    """Return what became of the approved calls that ended between two checkpoints of a turn with a case."""
    ends = {}
    if after.case is not None:
        for call_id, verdict in after.verdicts.items():
            if verdict.decision in _RUNNING_DECISIONS:
                state = find_call_state(after, call_id)
                if state in _OUTCOMES and state is not find_call_state(before, call_id):
                    ends[call_id] = _OUTCOMES[state]
    return ends


def report_ends(before: Checkpoint, after: Checkpoint) -> "TurnSteps[None]":
    """Report what became of the approved calls that ended between two checkpoints."""
    if after.case is not None and (ends := find_new_ends(before, after)):
        yield ReportEnds(after.case, ends)


def give_back_call(thread: Checkpoint, call_id: str) -> Checkpoint:
    """Return the thread with a call that was claimed and has not begun."""
    return replace(thread, started=tuple(each for each in thread.started if each != call_id))


def finish_calls(thread: Checkpoint, results: Mapping[str, str]) -> Checkpoint:
    """Return the thread with the results of calls that have ended; the first result of a call counts.

    A FailedResult is recorded as a failure.
    """
    ends = {}
    for call_id, text in results.items():
        if call_id in thread.results:
            continue
        event = CallEvent.FAIL if isinstance(text, FailedResult) else CallEvent.FINISH
        state = apply(find_call_state(thread, call_id) or _R, event)
        if state is CallState.FAILED:
            ends[call_id] = str(state)
    return replace(
        thread,
        results={**{call_id: str(text) for call_id, text in results.items()}, **thread.results},
        ends={**thread.ends, **ends} if ends else thread.ends,
    )


def find_refusal(thread: Checkpoint, call_id: str) -> str | None:
    """Return the text that replaces the result of a call that must not run; None if it may.

    Raises ThreadPaused for a call that is not decided, and NothingToResume for one that was never stopped.
    """
    state = find_call_state(thread, call_id)
    if state is None:
        raise NothingToResume(f"No call {call_id} was stopped here.")
    if state is _W:
        raise ThreadPaused
    verdict = thread.verdicts.get(call_id)
    return None if verdict is None else describe_refusal(verdict)


# What a turn asks its driver to do


@dataclass(frozen=True, slots=True)
class TurnMoment:
    """The time, and the id of an interruption that begins now."""

    now: datetime
    new_id: str


@dataclass(slots=True)
class ReadMoment:
    """Return a TurnMoment."""


@dataclass(slots=True)
class EvaluateCalls:
    """Return the calls that a hook stops: call id -> how it must be reviewed."""

    calls: Sequence[ToolCall]
    state: Mapping[str, Any]
    schemas: Schemas | None = None
    """Given if the calls have not been checked against their tools' schemas yet."""


@dataclass(slots=True)
class UseGrants:
    """Return the calls that are covered by a grant: call id -> grant id."""

    calls: Sequence[ToolCall]
    thread_id: str
    turn: int


@dataclass(slots=True)
class RecheckGrants:
    """Return the calls whose grant is still valid, just before they run."""

    granted: GrantedCalls


@dataclass(slots=True)
class SaveCheckpoint:
    """Save the checkpoint; `leased` keeps the thread's lease.

    `unsynced`: a power cut may undo the write, because calls lost that way are reported as unknown and
    not run again.
    """

    checkpoint: Checkpoint
    leased: bool = False
    unsynced: bool = False


@dataclass(slots=True)
class OpenCase:
    """Open the case for an interruption; return the case, or None if it could not be opened yet."""

    interruption: InterruptionMetadata
    attempt: int = 0


@dataclass(slots=True)
class PollCase:
    """Return the CaseOutcome of a case, or None while it is open."""

    case: Mapping[str, Any]


@dataclass(slots=True)
class WithdrawCase:
    """Withdraw a case that is not needed any more."""

    case: Mapping[str, Any]
    why: str = DECIDED_ELSEWHERE


@dataclass(slots=True)
class ReportEnds:
    """Report to a case what became of its approved calls: call id -> outcome."""

    case: Mapping[str, Any]
    outcomes: Mapping[str, ExecutionOutcome]


TurnEffect = (
    ReadMoment
    | EvaluateCalls
    | UseGrants
    | RecheckGrants
    | SaveCheckpoint
    | OpenCase
    | PollCase
    | WithdrawCase
    | ReportEnds
)
TurnSteps: TypeAlias = Generator[Any, Any, T]
"""Yields a TurnEffect and receives its result."""


# Stop


@dataclass(frozen=True, slots=True)
class StoppedTurn:
    """Calls that must wait, and those of the same turn that a grant covers."""

    interruption: InterruptionMetadata
    granted: GrantedCalls


def stop(
    calls: Sequence[ToolCall],
    *,
    thread_id: str,
    turn: int,
    state: Mapping[str, Any],
    schemas: Schemas,
    uses_grants: bool,
    requirements: Mapping[str, "ReviewRequirement"] | None = None,
    are_checked: bool = False,
) -> TurnSteps[StoppedTurn | None]:
    """Return the calls of a turn that wait, or None if none needs a review.

    Calls with `requirements` are not evaluated again. `are_checked`: the arguments match the schemas.
    """
    if requirements is None:
        requirements = yield EvaluateCalls(calls, state, None if are_checked else schemas)
    if not requirements:
        return None
    covered: Mapping[str, str] = {}
    if uses_grants and (asked := _select_grantable(calls, requirements)):
        covered = yield UseGrants(asked, thread_id, turn)
    needed = {each: one for each, one in requirements.items() if each not in covered}
    if not needed:
        return None
    waits = [requirement.config.timeout_duration for requirement in needed.values()]
    shortest = min((wait for wait in waits if wait is not None), default=None)
    holds = any(requirement.config.default == "hold" for requirement in needed.values())
    moment: TurnMoment = yield ReadMoment()
    interruption = create_interruption(
        moment.new_id,
        thread_id=thread_id,
        turn=turn,
        feedbacks=[_build_feedback(call, needed[call.id], schemas) for call in calls if call.id in needed],
        automatic=[call for call in calls if call.id not in needed],
        now=moment.now,
        state=state,
        expires_at=None if shortest is None else moment.now + shortest,
        default="hold" if holds else "reject",
    )
    granted = {
        call.id: {
            "grant": covered[call.id],
            "call": _build_feedback(call, requirements[call.id], schemas).to_dict(),
        }
        for call in calls
        if call.id in covered
    }
    return StoppedTurn(interruption, granted)


def pause(
    thread: Checkpoint, *, opens_cases: bool, unsynced: bool = False
) -> TurnSteps[InterruptionMetadata]:
    """Save a thread that waits, and ask a reviewer."""
    yield SaveCheckpoint(thread, unsynced=unsynced)
    return (yield from ask(thread, opens_cases=opens_cases))


def ask(thread: Checkpoint, *, opens_cases: bool, attempt: int = 0) -> TurnSteps[InterruptionMetadata]:
    """Return the waiting calls with their case, which is opened if it is not open yet."""
    interruption, case = require_interruption(thread).with_verdicts(thread.verdicts), thread.case
    if opens_cases and case is None:
        opened = yield OpenCase(interruption, attempt)
        if opened is not None:
            case = {**opened, "attempt": attempt}
            # A faster process stored the same case, or an answer; an unsaved case is found again by its id.
            with suppress(CheckpointConflict, Unavailable):
                yield SaveCheckpoint(thread.next(case=case))
    return interruption if case is interruption.case else replace(interruption, case=case)


# Answer


PassedDecisions = Mapping[str, tuple[ToolFeedback, Verdict]]
"""Call id -> the call as the reviewer saw it, and the decision that another agent passes on."""
NO_DECISIONS: PassedDecisions = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A turn whose calls are all decided.

    The driver saves it, and may start calls in the same write.
    """

    thread: Checkpoint
    outdated_case: Mapping[str, Any] | None = None
    """The case to withdraw afterwards."""


def answer(
    thread: Checkpoint,
    feedback: Feedback | None,
    *,
    schemas: Schemas,
    opens_cases: bool,
    passed: PassedDecisions = NO_DECISIONS,
) -> TurnSteps[AnsweredTurn | InterruptionMetadata]:
    """Apply answers, or without feedback the outcome of the case, or the end of the time to decide.

    Returns the calls that still wait, which are saved; or the decided turn, which is not. Raises
    InvalidFeedback, and then nothing is saved; NothingToResume; CheckpointConflict.
    """
    interruption = require_interruption(thread)
    if thread.stage != "paused":
        raise NothingToResume
    outcome: CaseOutcome | None = None
    if thread.case is not None:
        outcome = yield PollCase(thread.case)
        if feedback is None and interruption.default == "hold" and _is_expired(outcome):
            following = thread.case.get("attempt", 0) + 1
            return (yield from ask(replace(thread, case=None), opens_cases=opens_cases, attempt=following))
    moment: TurnMoment = yield ReadMoment()
    given = _take_passed_decisions(thread, passed)
    if given is None:
        given = _collect_verdicts(thread, feedback, outcome, schemas, moment.now)
    if given is None or (feedback is None and given == thread.verdicts):
        return (yield from _ask_and_poll(thread, schemas, passed, opens_cases=opens_cases))
    _check_transitions(thread, given)
    again, verdicts = yield from _ask_again_after_edits(interruption, given, schemas, moment)
    granted = thread.granted
    if granted and len(verdicts) == len(again.tool_feedbacks):
        holding = yield RecheckGrants(granted)
        again, granted = _ask_again_after_grants(again, granted, holding, moment)
    is_new, complete = again is not interruption, len(verdicts) == len(again.tool_feedbacks)
    outdated = thread.case if feedback is not None and (complete or is_new) else None
    decided = thread.decided
    if is_new:
        decided = record_decisions(decided, interruption.with_verdicts(given))
    changes = {"interruption": again, "verdicts": verdicts, "granted": granted, "decided": decided}
    if complete:
        # Nothing can be edited any more, so the tools need not be stored.
        return AnsweredTurn(thread.next(stage="running", started=(), tools={}, **changes), outdated)
    following = thread.next(case=None if is_new else thread.case, **changes)
    yield SaveCheckpoint(following)
    if outdated is not None:
        yield WithdrawCase(outdated)
    return (yield from ask(following, opens_cases=opens_cases))


def require_same_calls(thread: Checkpoint, calls: Sequence[ToolCall]) -> None:
    """Raise HookError unless these calls were stopped here: a decision never counts for another call."""
    if digest_json([call.to_dict() for call in calls]) != digest_json([*thread.asked]):
        raise HookError("Other calls were stopped under this key. Give every turn a key of its own.")


def find_calls_before_message(
    policy: "NewMessagePolicy", waiting: InterruptionMetadata | None
) -> InterruptionMetadata | None:
    """Return the waiting calls behind which a new message is queued; None if they make way for it.

    Raises ThreadPaused if the message is refused.
    """
    if waiting is None or policy == "refuse":
        raise ThreadPaused
    return None if policy == "cancel" else waiting


def supersede(thread: Checkpoint, reason: str) -> Checkpoint:
    """Return a paused thread whose calls make way; what was refused or answered before stays so."""
    interruption, verdict = require_interruption(thread), None
    verdicts: Verdicts = dict(thread.verdicts)
    for waiting in interruption.tool_feedbacks:
        state = find_call_state(thread, waiting.id) or _W
        if apply(state, CallEvent.SUPERSEDE) is CallState.SUPERSEDED:
            verdict = verdict or Verdict(
                decision=FeedbackResult.REJECTED, reason=reason, not_run=NotRunReason.SUPERSEDED
            )
            verdicts[waiting.id] = verdict
    automatic = interruption.tools_automatically_approved
    new = {call.id: reason for call in automatic if call.id not in thread.results}
    return replace(
        thread,
        stage="running",
        verdicts=verdicts,
        results={**thread.results, **new},
        ends={**thread.ends, **dict.fromkeys(new, str(CallState.SUPERSEDED))},
        tools={},
        granted={},
    )


def supersede_decided(thread: Checkpoint, calls: Iterable[str], reason: str) -> Checkpoint:
    """Return a decided turn of which these calls make way, unless they have started."""
    ended = {}
    for call_id in calls:
        state = find_call_state(thread, call_id)
        if state is not None and state is not apply(state, CallEvent.SUPERSEDE):
            ended[call_id] = reason
    return replace(
        thread,
        results={**thread.results, **ended},
        ends={**thread.ends, **dict.fromkeys(ended, str(CallState.SUPERSEDED))},
    )


def refuse_contradiction(thread: Checkpoint, feedback: Feedback | None) -> InterruptionMetadata:
    """Return the decided calls; raise AlreadyDecided if the answers contradict the decisions."""
    decided = get_decided_calls(thread)
    records = record_decisions(thread.decided, decided)
    if problems := find_contradictions(records, feedback):
        raise AlreadyDecided(describe_contradictions(problems), outcome=decided, problems=problems)
    return decided


def get_decided_calls(thread: Checkpoint) -> InterruptionMetadata:
    """Return the calls of the turn with their decisions."""
    return require_interruption(thread).with_verdicts(thread.verdicts)


def find_results(thread: Checkpoint, calls: Iterable[str]) -> dict[str, str]:
    """Return the texts that the model reads about calls of a decided turn, as far as they are known."""
    found = {}
    for call_id in calls:
        text = thread.results.get(call_id)
        if text is None and find_call_state(thread, call_id) is not None:
            text = find_refusal(thread, call_id)
        if text is not None:
            found[call_id] = text
    return found


def check_answer(interruption: InterruptionMetadata, answered: ToolFeedback) -> None:
    """Raise InvalidFeedback if this decision would be refused; nothing is stored."""
    validate_answers(interruption, [answered])


def require_interruption(thread: Checkpoint) -> InterruptionMetadata:
    """Return what the thread was stopped for; raise NothingToResume if it was not."""
    if thread.interruption is None:
        raise NothingToResume
    return thread.interruption


def show_interruption(thread: Checkpoint) -> InterruptionMetadata | None:
    """Return the stopped calls with the decisions so far and their case; None if nothing was stopped."""
    stopped = thread.interruption
    return None if stopped is None else replace(stopped.with_verdicts(thread.verdicts), case=thread.case)


def _collect_verdicts(
    thread: Checkpoint,
    feedback: Feedback | None,
    outcome: CaseOutcome | None,
    schemas: Schemas,
    now: datetime,
) -> Mapping[str, Verdict] | None:
    """Return all decisions so far, or None if nothing is new. If a case is open, its expiry counts."""
    interruption, decided = require_interruption(thread), thread.verdicts
    if feedback is not None:
        given = validate_answers(interruption, feedback, decided=decided, schemas=schemas, now=now)
        _check_against_case(given, outcome, interruption, decided, schemas)
        return given
    if thread.case is not None:
        return None if outcome is None else _verdicts_from_case(outcome, interruption, decided, schemas)
    late = interruption.expires_at is not None and now >= interruption.expires_at
    return reject_undecided(interruption, decided) if late and interruption.default == "reject" else None


def _verdicts_from_case(
    outcome: CaseOutcome,
    interruption: InterruptionMetadata,
    decided: Mapping[str, Verdict],
    schemas: Schemas,
) -> Verdicts:
    """Return the decisions so far including those of the case, which checked its expiry itself.

    A call that was decided elsewhere before keeps its first decision.
    """
    if outcome.not_run is not None:
        return reject_undecided(interruption, decided, reason=outcome.reason, not_run=outcome.not_run)
    said = {each: one for each, one in outcome.complete_decisions().items() if each not in decided}
    return validate_answers(interruption, said, decided=decided, schemas=schemas)


def _check_against_case(
    given: Verdicts,
    outcome: CaseOutcome | None,
    interruption: InterruptionMetadata,
    decided: Mapping[str, Verdict],
    schemas: Schemas,
) -> None:
    """Raise InvalidFeedback if answers contradict the reviewer's decisions.

    Decisions made before the reviewer answered (`decided`) stay as they are.
    """
    if outcome is None or outcome.status != "decided":
        return
    try:
        said = _verdicts_from_case(outcome, interruption, decided, schemas)
    except InvalidFeedback:
        return  # an invalid answer decides nothing
    tools = {waiting.id: waiting.name for waiting in interruption.tool_feedbacks}
    wrong = [
        f"{call_id}: already decided ({said[call_id].decision})"
        for call_id, verdict in given.items()
        if _contradicts_reviewer(said.get(call_id), verdict, tools.get(call_id, ""))
    ]
    if wrong:
        raise InvalidFeedback(f"Nothing was stored: {'; '.join(wrong)}.", problems=wrong)


def _contradicts_reviewer(said: Verdict | None, verdict: Verdict, tool: str) -> bool:
    """Return whether code may not decide this; it may stop a call that the reviewer lets run."""
    if said is None or verdict.decision is FeedbackResult.REJECTED:
        return False
    if said.decision is FeedbackResult.APPROVED and verdict.decision is FeedbackResult.RESPONDED:
        return False
    return contradicts(said, verdict, tool)


def _is_expired(outcome: CaseOutcome | None) -> bool:
    """Return whether the case expired without an answer."""
    return outcome is not None and outcome.status == "expired"


def _check_transitions(thread: Checkpoint, verdicts: Mapping[str, Verdict]) -> None:
    """Raise AlreadyDecided if the table refuses a new decision."""
    for call_id, verdict in verdicts.items():
        if call_id not in thread.verdicts:
            apply(find_call_state(thread, call_id) or _W, _find_event_of(verdict))


def _find_event_of(verdict: Verdict) -> CallEvent:
    if verdict.decision is FeedbackResult.REJECTED:
        return _EVENT_OF_REASON[verdict.not_run]
    return CallEvent.ANSWER if verdict.decision is FeedbackResult.RESPONDED else CallEvent.APPROVE


def _take_passed_decisions(thread: Checkpoint, passed: PassedDecisions) -> Mapping[str, Verdict] | None:
    """Return all decisions so far, if a passed-on decision is about a call that waits here, else None.

    Only a decision on exactly the same call counts, because another call may have the same id.
    """
    if not passed:
        return None
    waiting = {each.id: each for each in require_interruption(thread).tool_feedbacks}
    new = {
        call_id: verdict
        for call_id, (shown, verdict) in passed.items()
        if call_id in waiting and _is_same_call(waiting[call_id], shown)
    }
    return {**new, **thread.verdicts} if new else None


def _is_same_call(waiting: ToolFeedback, shown: ToolFeedback) -> bool:
    return (waiting.name, waiting.arguments, waiting.path) == (shown.name, shown.arguments, shown.path)


def _ask_and_poll(
    thread: Checkpoint, schemas: Schemas, passed: PassedDecisions, *, opens_cases: bool
) -> TurnSteps[AnsweredTurn | InterruptionMetadata]:
    """Like `ask`, but also apply the outcome of the case: a process that died may have opened it before."""
    waiting = yield from ask(thread, opens_cases=opens_cases)
    if thread.case is not None or waiting.case is None or (yield PollCase(waiting.case)) is None:
        return waiting
    opened = thread.next(case=waiting.case)
    return (yield from answer(opened, None, schemas=schemas, opens_cases=opens_cases, passed=passed))


def _ask_again_after_edits(
    interruption: InterruptionMetadata, verdicts: Mapping[str, Verdict], schemas: Schemas, moment: TurnMoment
) -> TurnSteps[tuple[InterruptionMetadata, Mapping[str, Verdict]]]:
    """Return the next interruption and the decisions that still count.

    A reviewer may edit a call into a call of another tool. If that tool must be reviewed too, the edited
    call waits again in the new interruption, and its decision does not count.
    """
    edited: dict[str, ToolCall] = {}
    for waiting in interruption.tool_feedbacks:
        verdict = verdicts.get(waiting.id)
        # An inner agent evaluates edits of its own calls.
        if verdict is not None and not waiting.path and verdict.name not in (None, waiting.name):
            edited[waiting.id] = apply_verdict(waiting.call, verdict)
    if not edited:
        return interruption, verdicts
    requirements = yield EvaluateCalls([*edited.values()], interruption.state)
    again = {
        call_id: _build_feedback(call, requirements[call_id], schemas)
        for call_id, call in edited.items()
        if call_id in requirements
    }
    if not again:
        return interruption, verdicts
    renewed = create_interruption(
        moment.new_id,
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[again.get(waiting.id, waiting) for waiting in interruption.tool_feedbacks],
        automatic=interruption.tools_automatically_approved,
        now=moment.now,
        state=interruption.state,
        expires_at=interruption.expires_at,
        default=interruption.default,
    )
    return renewed, {call_id: verdict for call_id, verdict in verdicts.items() if call_id not in again}


def _ask_again_after_grants(
    interruption: InterruptionMetadata, granted: GrantedCalls, holding: Collection[str], moment: TurnMoment
) -> tuple[InterruptionMetadata, GrantedCalls]:
    """Return a new interruption that includes the calls whose grant has ended, and the other granted calls.

    The reviewer has as long as for the first interruption.
    """
    lapsed = {call_id: entry["call"] for call_id, entry in granted.items() if call_id not in holding}
    if not lapsed:
        return interruption, granted
    began, ends = interruption.created_at, interruption.expires_at
    renewed = create_interruption(
        moment.new_id,
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[*interruption.tool_feedbacks, *map(ToolFeedback.from_dict, lapsed.values())],
        automatic=[call for call in interruption.tools_automatically_approved if call.id not in lapsed],
        now=moment.now,
        state=interruption.state,
        expires_at=None if ends is None else moment.now + (ends - began),
        default=interruption.default,
    )
    return renewed, {call_id: entry for call_id, entry in granted.items() if call_id not in lapsed}


def _select_grantable(
    calls: Iterable[ToolCall], requirements: Mapping[str, "ReviewRequirement"]
) -> list[ToolCall]:
    """Return the gated calls that a grant may cover: those that are not high-risk."""
    return [
        call for call in calls if call.id in requirements and requirements[call.id].config.high_risk is False
    ]


def _build_feedback(call: ToolCall, requirement: "ReviewRequirement", schemas: Schemas) -> ToolFeedback:
    return ToolFeedback.for_call(
        call,
        description=requirement.description,
        allowed_decisions=requirement.config.decisions,
        schema=schemas.get(call.name),
        high_risk=requirement.config.high_risk,
    )
