"""Evaluating one turn of calls: which need a reviewer, and which wait with them."""

import inspect
from collections.abc import Awaitable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from placet.hook.tool_call import Schemas, ToolCall
from placet.protocol.json_schema import check_work, compile_schema

T = TypeVar("T")
PROVIDER_TOOL_NOT_GATED = (
    "Calls of {} need a review, but they run at the model's provider and cannot wait. Remove the tool,"
    " or exempt it with a rule."
)


@dataclass(slots=True)
class AwaitValue:
    """Return the value of an awaitable, such as the verdict of an async condition."""

    awaitable: Awaitable[Any]


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


def _find_first(
    evaluated: Iterable[MaybeAwaitable[ReviewRequirement | None]],
) -> EvaluationSteps[ReviewRequirement | None]:
    """Return the first requirement; later hooks are not evaluated."""
    for given in evaluated:
        found = (yield AwaitValue(given)) if inspect.isawaitable(given) else given
        if found is not None:
            return found
    return None
