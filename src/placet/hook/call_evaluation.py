"""Evaluating one turn of calls: which need a reviewer, and which wait with them."""

import inspect
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from placet.errors import HookError
from placet.hook.approval_rules import (
    Hook,
    HumanInTheLoopHook,
    MaybeAwaitable,
    ReviewRequirement,
    State,
)
from placet.hook.async_values import wait_for_value
from placet.hook.checkpoint import GrantedCalls
from placet.hook.effects import AwaitValue
from placet.hook.feedback import ToolFeedback, Verdict
from placet.hook.interruption import InterruptionMetadata, create_interruption
from placet.hook.result_texts import apply_verdict
from placet.hook.tool_call import ToolCall
from placet.protocol.json_schema import check_work, compile_schema

T = TypeVar("T")
PROVIDER_TOOL_NOT_GATED = (
    "Calls of {} need a review, but they run at the model's provider and cannot wait. Remove the tool,"
    " or exempt it with a rule."
)
Schemas = Mapping[str, Mapping[str, Any] | None]
"""Tool -> its JSON Schema."""
EvaluationSteps: TypeAlias = Generator[AwaitValue, Any, T]
"""Steps of an evaluation: it yields what async hooks and conditions return, and receives their verdicts."""


def run_evaluation(steps: EvaluationSteps[T]) -> T:
    """Return the result of an evaluation; this thread waits for async verdicts."""
    try:
        step = next(steps)
        while True:
            step = steps.send(wait_for_value(step.awaitable))
    except StopIteration as end:
        result: T = end.value
        return result


async def arun_evaluation(steps: EvaluationSteps[T]) -> T:
    """Async version of `run_evaluation`."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await step.awaitable)
    except StopIteration as end:
        result: T = end.value
        return result


def evaluate_calls(
    hooks: Iterable[Hook], calls: Iterable[ToolCall], state: State, schemas: Schemas | None = None
) -> EvaluationSteps[dict[str, ReviewRequirement]]:
    """Return the calls that need a reviewer: call id -> requirement. Each is evaluated once, here.

    `schemas` are given if the calls have not been checked against their tools' schemas yet.
    """
    hooks, known = tuple(hooks), schemas or {}
    requirements: dict[str, ReviewRequirement] = {}
    for call in calls:
        requirement = yield from evaluate_call(hooks, call, state, known.get(call.name))
        if requirement is not None:
            requirements[call.id] = requirement
    return requirements


def evaluate_call(
    hooks: Sequence[Hook], call: ToolCall, state: State, schema: Mapping[str, Any] | None = None
) -> EvaluationSteps[ReviewRequirement | None]:
    """Return how this call must be reviewed, or None if it needs no review.

    Frameworks convert arguments to what a tool takes ("true" to True), which no condition has seen. So a
    call that does not match its schema is reviewed if any rule names its tool.
    """
    requirement = yield from _find_first(hook.evaluate(call, state) for hook in hooks)
    if requirement is not None:
        return requirement
    doubt = yield from _find_first(
        hook.evaluate_invalid(call, state) for hook in hooks if hasattr(hook, "evaluate_invalid")
    )
    return None if doubt is None or _matches_schema(schema, call) else doubt


def check_provider_tools(hooks: Sequence[Hook], names: Iterable[str], state: State) -> EvaluationSteps[None]:
    """Raise HookError if a rule stops a tool that the model's provider runs: its calls cannot wait."""
    for name in names:
        call = ToolCall(id="", name=name, arguments={})
        for hook in hooks:
            if type(hook) is HumanInTheLoopHook:
                stops = not hook.never_stops(name)
            else:
                stops = (yield from evaluate_call([hook], call, state)) is not None
            if stops:
                raise HookError(PROVIDER_TOOL_NOT_GATED.format(name))


def _matches_schema(schema: Mapping[str, Any] | None, call: ToolCall) -> bool:
    """Return whether the tool gets the values as sent; a missing value is visible to conditions."""
    try:
        if schema is not None and not check_work(schema, call.arguments):
            return bool(compile_schema(schema).is_valid(call.arguments))
        problems = () if schema is None else compile_schema(schema).iter_errors(call.arguments)
        return all(problem.schema_path[-1:] == ["required"] for problem in problems)
    except ValueError:  # includes a schema that cannot be checked
        return False


def interrupt_turn(
    requirements: Mapping[str, ReviewRequirement],
    calls: Sequence[ToolCall],
    *,
    thread_id: str,
    turn: int,
    state: State,
    schemas: Schemas,
    now: datetime,
    covered: Collection[str] = (),
) -> InterruptionMetadata | None:
    """Return the interruption of a turn, or None if no call needs review.

    Calls in `covered` are covered by a grant and need no review.
    """
    if covered:
        requirements = {
            call_id: requirement for call_id, requirement in requirements.items() if call_id not in covered
        }
    if not requirements:
        return None
    waits = [requirement.config.timeout_duration for requirement in requirements.values()]
    shortest = min((wait for wait in waits if wait is not None), default=None)
    holds = any(requirement.config.default == "hold" for requirement in requirements.values())
    return create_interruption(
        thread_id=thread_id,
        turn=turn,
        feedbacks=[
            _build_feedback(call, requirements[call.id], schemas) for call in calls if call.id in requirements
        ],
        automatic=[call for call in calls if call.id not in requirements],
        now=now,
        state=state,
        expires_at=None if shortest is None else now + shortest,
        default="hold" if holds else "reject",
    )


def record_granted_calls(
    requirements: Mapping[str, ReviewRequirement],
    calls: Sequence[ToolCall],
    covered: Mapping[str, str],
    schemas: Schemas,
) -> dict[str, dict[str, Any]]:
    """Return the granted calls as they are shown to a reviewer if their grant ends while they wait."""
    return {
        call.id: {
            "grant": covered[call.id],
            "call": _build_feedback(call, requirements[call.id], schemas).to_dict(),
        }
        for call in calls
        if call.id in covered
    }


def reinterrupt_lapsed(
    interruption: InterruptionMetadata, granted: GrantedCalls, holding: Collection[str], *, now: datetime
) -> tuple[InterruptionMetadata, GrantedCalls]:
    """Return a new interruption that includes the calls whose grant has ended, and the other granted calls.

    The reviewer has as long as for the first interruption.
    """
    lapsed = {call_id: entry["call"] for call_id, entry in granted.items() if call_id not in holding}
    if not lapsed:
        return interruption, granted
    began, ends = interruption.created_at, interruption.expires_at
    renewed = create_interruption(
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[*interruption.tool_feedbacks, *map(ToolFeedback.from_dict, lapsed.values())],
        automatic=[call for call in interruption.tools_automatically_approved if call.id not in lapsed],
        now=now,
        state=interruption.state,
        expires_at=None if ends is None else now + (ends - began),
        default=interruption.default,
    )
    return renewed, {call_id: entry for call_id, entry in granted.items() if call_id not in lapsed}


def reinterrupt_edits(
    hooks: Iterable[Hook],
    interruption: InterruptionMetadata,
    verdicts: Mapping[str, Verdict],
    *,
    schemas: Schemas,
    now: datetime,
) -> EvaluationSteps[tuple[InterruptionMetadata, Mapping[str, Verdict]]]:
    """Return the next interruption and the decisions that still count.

    A reviewer may edit a call into a call of another tool. If that tool must be reviewed too, the edited
    call waits again in the new interruption, and its decision does not count.
    """
    hooks = tuple(hooks)
    again: dict[str, ToolFeedback] = {}
    for waiting in interruption.tool_feedbacks:
        verdict = verdicts.get(waiting.id)
        # An inner agent evaluates edits of its own calls.
        if verdict is None or waiting.path or verdict.name in (None, waiting.name):
            continue
        call = apply_verdict(waiting.call, verdict)
        requirement = yield from _find_first(hook.evaluate(call, interruption.state) for hook in hooks)
        if requirement is not None:
            again[waiting.id] = _build_feedback(call, requirement, schemas)
    if not again:
        return interruption, verdicts
    renewed = create_interruption(
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[again.get(waiting.id, waiting) for waiting in interruption.tool_feedbacks],
        automatic=interruption.tools_automatically_approved,
        now=now,
        state=interruption.state,
        expires_at=interruption.expires_at,
        default=interruption.default,
    )
    return renewed, {call_id: verdict for call_id, verdict in verdicts.items() if call_id not in again}


def _find_first(
    evaluated: Iterable[MaybeAwaitable[ReviewRequirement | None]],
) -> EvaluationSteps[ReviewRequirement | None]:
    """Return the first requirement; later hooks are not evaluated."""
    for given in evaluated:
        found = (yield AwaitValue(given)) if inspect.isawaitable(given) else given
        if found is not None:
            return found
    return None


def _build_feedback(call: ToolCall, requirement: ReviewRequirement, schemas: Schemas) -> ToolFeedback:
    return ToolFeedback.for_call(
        call,
        description=requirement.description,
        allowed_decisions=requirement.config.decisions,
        schema=schemas.get(call.name),
        high_risk=requirement.config.high_risk,
    )
