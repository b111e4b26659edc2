"""Checking answers against the calls that wait for them.

Nothing is stored; one invalid answer refuses all.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from placet.cases.execution_outcomes import NotRunReason
from placet.errors import InvalidFeedback
from placet.hook.feedback import CallDecision, FeedbackResult, ToolFeedback, Verdict, contradicts
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import NOT_DECIDED_IN_TIME
from placet.hook.tool_call import find_json_problem
from placet.protocol.json_schema import UnusableSchema, find_violations

Feedback: TypeAlias = (
    InterruptionMetadata | Sequence[ToolFeedback] | Iterator[ToolFeedback] | Mapping[str, CallDecision]
)
"""An answered interruption, only its answered calls, or call id -> "approve" or {"decision": …, …}."""
Verdicts = dict[str, Verdict]
NOT_ANSWERS = "Answers must be ToolFeedback objects, or a mapping of call id to decision."
_BARE_VERDICTS = {result: Verdict(decision=result) for result in FeedbackResult}
"""Verdicts that carry nothing but a decision."""
EDIT_CHANGES_NOTHING = "the edit changes nothing, so the decision must be approve"
"""Why this is refused.

An edit into a gated tool waits for a second approval, and the same edit delivered twice must not count as
that approval.
"""


def materialize_answers(feedback: Feedback | None) -> Feedback | None:
    """Return the answers in a form that can be read more than once; raises InvalidFeedback."""
    if feedback is None or isinstance(feedback, InterruptionMetadata | Mapping):
        return feedback
    try:
        said = iter(feedback)
    except TypeError:
        raise InvalidFeedback(NOT_ANSWERS) from None
    if isinstance(feedback, str | bytes):
        raise InvalidFeedback(NOT_ANSWERS)
    return tuple(said)


def validate_answers(
    interruption: InterruptionMetadata,
    feedback: Feedback,
    *,
    decided: Mapping[str, Verdict] | None = None,
    schemas: Mapping[str, Mapping[str, object] | None] | None = None,
    now: datetime | None = None,
) -> Verdicts:
    """Return all decisions so far: the stored ones and the new ones.

    `schemas` are the tools that an edit may change to. Raises InvalidFeedback with every problem in
    `details["problems"]`. Calls without an answer stay undecided.
    """
    over = now is not None and interruption.expires_at is not None and now >= interruption.expires_at
    if over and interruption.default != "hold":
        raise InvalidFeedback("The time to answer has expired; nothing was stored.")
    waiting = {feedback.id: feedback for feedback in interruption.tool_feedbacks}
    verdicts = dict(decided or {})
    wrong: list[str] = []
    for call_id, verdict in _read_verdicts(interruption, materialize_answers(feedback) or (), wrong).items():
        if call_id not in waiting:
            wrong.append(f"{call_id}: no call with this id is waiting")
        elif call_id in verdicts:
            first = verdicts[call_id]
            if contradicts(first, verdict, waiting[call_id].name):
                wrong.append(f"{call_id}: already decided ({first.decision})")
        else:
            if trouble := _find_problems(waiting[call_id], verdict, schemas or {}):
                wrong += [f"{call_id}: {problem}" for problem in trouble]
            verdicts[call_id] = verdict
    if wrong:
        raise InvalidFeedback(f"Nothing was stored: {'; '.join(wrong)}.", problems=wrong)
    return verdicts


def reject_undecided(
    interruption: InterruptionMetadata,
    decided: Mapping[str, Verdict],
    *,
    reason: str = NOT_DECIDED_IN_TIME,
    not_run: NotRunReason = NotRunReason.TIMED_OUT,
) -> Verdicts:
    """Return all decisions, with every undecided call rejected. No default ever runs a call."""
    if all(waiting.id in decided for waiting in interruption.tool_feedbacks):
        return dict(decided)
    refused = Verdict(decision=FeedbackResult.REJECTED, reason=reason, not_run=not_run)
    return {**{waiting.id: refused for waiting in interruption.tool_feedbacks}, **decided}


def _read_verdicts(interruption: InterruptionMetadata, feedback: Feedback, wrong: list[str]) -> Verdicts:
    if isinstance(feedback, Mapping):
        return _verdicts_from_mapping(feedback, wrong)
    if isinstance(feedback, InterruptionMetadata):
        if feedback.id != interruption.id or feedback.digest != interruption.digest:
            raise InvalidFeedback("These answers belong to another interruption; nothing was stored.")
        feedback = feedback.tool_feedbacks
    originals = {waiting.id: waiting for waiting in interruption.tool_feedbacks}
    read: Verdicts = {}
    for answered in feedback:
        if not isinstance(answered, ToolFeedback):
            raise InvalidFeedback(NOT_ANSWERS)
        if answered.id in read:
            wrong.append(f"{answered.id}: answered twice")
        if answered.result is not None:
            read[answered.id] = _verdict_from_feedback(
                originals.get(answered.id), answered, answered.result, wrong
            )
    return read


def _verdicts_from_mapping(feedback: Mapping[str, CallDecision], wrong: list[str]) -> Verdicts:
    read: Verdicts = {}
    for call_id, said in feedback.items():
        try:
            read[call_id] = Verdict.from_dict(said)
        except InvalidFeedback as error:
            wrong.append(f"{call_id}: {error.message.rstrip('.')}")
    return read


def _verdict_from_feedback(
    original: ToolFeedback | None, answered: ToolFeedback, result: FeedbackResult, wrong: list[str]
) -> Verdict:
    reason, edited = answered.reason, result is FeedbackResult.EDITED
    if original is not None:
        changed = answered.name != original.name or answered.arguments != original.arguments
        if changed and not edited:
            wrong.append(f"{answered.id}: the call was changed, so the decision must be edit")
        if edited and not changed:
            wrong.append(f"{answered.id}: {EDIT_CHANGES_NOTHING}")
        if (
            result is FeedbackResult.REJECTED
            and reason is None
            and answered.description != original.description
        ):
            reason = answered.description
    if not edited and reason is answered.answer is answered.decided_by is None:
        return _BARE_VERDICTS[result]
    return Verdict(
        decision=result,
        name=answered.name if edited and original is not None and answered.name != original.name else None,
        arguments=answered.arguments if edited else None,
        reason=reason,
        answer=answered.answer,
        decided_by=answered.decided_by,
    )


def _find_problems(
    waiting: ToolFeedback, verdict: Verdict, schemas: Mapping[str, Mapping[str, object] | None]
) -> list[str]:
    if verdict.decision not in waiting.allowed_decisions:
        return [f"{verdict.decision} is not allowed, only {', '.join(waiting.allowed_decisions)}"]
    if verdict.decision is FeedbackResult.RESPONDED and verdict.answer is None:
        return ["respond needs an answer"]
    if verdict.decision is not FeedbackResult.EDITED:
        return [] if verdict.arguments is None and verdict.name is None else ["only edit changes a call"]
    if verdict.arguments is None:
        return ["edit needs arguments"]
    if trouble := find_json_problem(verdict.arguments):
        return [f"the arguments are not JSON ({trouble})"]
    return _find_edit_problems(waiting, verdict, schemas)


def _find_edit_problems(
    waiting: ToolFeedback, verdict: Verdict, schemas: Mapping[str, Mapping[str, object] | None]
) -> list[str]:
    schema = waiting.schema
    if verdict.name is not None and verdict.name != waiting.name:
        if waiting.path:
            return ["a call of an inner agent cannot be changed to another tool"]
        if verdict.name not in schemas:
            return [f"there is no tool {verdict.name}"]
        schema = schemas[verdict.name]
    elif verdict.name is not None and verdict.arguments == waiting.arguments:
        return [EDIT_CHANGES_NOTHING]
    if schema is None:
        return []
    try:
        return find_violations(schema, verdict.arguments)
    except UnusableSchema as error:
        return [f"the tool's schema cannot be checked ({error})"]
