"""How calls, decisions and errors travel through the OpenAI Agents SDK; nothing here decides."""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agents import (
    FunctionTool,
    RunState,
    ToolApprovalItem,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    UserError,
)
from agents.result import RunResultStreaming
from agents.tool_context import ToolContext
from pydantic_core import to_jsonable_python

from placet.errors import HookError, InvalidFeedback
from placet.hook.calls import Arguments, ToolCall, read_arguments
from placet.hook.feedback import FeedbackResult
from placet.hook.frameworks.threads import refused
from placet.hook.interruption import InterruptionMetadata
from placet.hook.outcomes import as_text

FORM = ("type", "id", "call_id", "status", "agent", "created_by")
"""Members of a call of the SDK's own that do not say what it is to do."""
ToolView = Callable[[ToolContext[Any]], ToolContext[Any]]
RICH = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def asked_for(item: ToolApprovalItem) -> ToolCall | None:
    """The call that waits; of a tool of the SDK's own, what it is to do. None if that cannot be read."""
    raw: Any = item.raw_item
    given = raw.get("arguments") if isinstance(raw, dict) else getattr(raw, "arguments", None)
    arguments = _what_to_do(raw) if given is None else arguments_of(given)
    if arguments is None:
        return None
    return ToolCall(id=item.call_id or "", name=item.name or "", arguments=arguments)


def _what_to_do(raw: Any) -> Arguments:
    members = to_jsonable_python(raw, fallback=str).items()
    return {name: said for name, said in members if name not in FORM and said is not None}


def key_of(call: ToolCall) -> str:
    """The whole call: its id alone may be another's, too."""
    return f"{call.id}/{call.name}/{json.dumps(call.arguments, sort_keys=True)}"


def is_agent(tool: FunctionTool) -> bool:
    """Whether another agent runs when this tool is called."""
    return bool(getattr(tool, "_is_agent_tool", False))


def arguments_of(given: Any) -> Arguments | None:
    """Arguments as a dict; None if they are not a JSON object."""
    try:
        return read_arguments(given)
    except InvalidFeedback:
        return None


def as_edited(context: ToolContext[Any], ran: ToolCall) -> ToolContext[Any]:
    """The context of a call as a person changed it."""
    edited = copy.copy(context)
    edited.tool_name, edited.tool_arguments = ran.name, json.dumps(ran.arguments)
    return edited


def seeing(guardrail: ToolInputGuardrail[Any], shown: ToolView) -> ToolInputGuardrail[Any]:
    """The same guardrail, which looks at the call as it is shown."""

    def look(data: ToolInputGuardrailData) -> Any:
        return guardrail.guardrail_function(replace(data, context=shown(data.context)))

    return replace(guardrail, guardrail_function=look, name=guardrail.get_name())


async def refused_by_guardrails(tool: FunctionTool, context: ToolContext[Any]) -> str | None:
    """What a tool's guardrails say in its place; the SDK asks only those of the tool that was called."""
    agent: Any = context.agent
    for guardrail in tool.tool_input_guardrails or ():
        said = await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))
        if said.behavior["type"] == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(guardrail, said)
        if said.behavior["type"] == "reject_content":
            return said.behavior["message"]
    return None


def decide(state: RunState[Any], decided: InterruptionMetadata) -> dict[str, ToolCall]:
    """Tell the SDK; what is to be edited or answered is seen to when it invokes the tool.

    Returns the calls that were decided, as they were asked for.
    """
    asked: dict[str, ToolCall] = {}
    feedbacks = {feedback.id: feedback for feedback in decided.tool_feedbacks}
    automatic = {call.id for call in decided.tools_automatically_approved}
    for item in state.get_interruptions():
        feedback = feedbacks.get(item.call_id or "")
        if (call := asked_for(item)) is not None:
            asked.setdefault(call.id, call)
        if item.call_id in automatic:
            state.approve(item)
        elif feedback is not None and feedback.result is FeedbackResult.REJECTED:
            state.reject(item, rejection_message=refused(feedback))
        elif feedback is not None and feedback.result is not None:
            state.approve(item)
    return asked


def taking_over(handoff: Any) -> Any:
    """The agent behind a handoff, if it says."""
    reference = getattr(handoff, "_agent_ref", None)
    return None if reference is None else reference()


@contextmanager
def ours_unwrapped() -> Iterator[None]:
    """The SDK reports what a tool raised as its own error; what our gate raised is ours."""
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, HookError):
            raise error.__cause__ from None
        raise


async def end(result: RunResultStreaming, events: AsyncGenerator[Any, None]) -> None:
    """Let a run of which nobody listens to the rest go no further; the SDK would finish it by itself."""
    if not result.is_complete:
        result.cancel()
    await events.aclose()
    if result.run_loop_task is not None:
        await asyncio.wait([result.run_loop_task])


def text_of(result: Any) -> str:
    """What a tool answered, as text."""
    return as_text(to_jsonable_python(result, fallback=str))


def with_notice(notice: str, result: Any) -> Any:
    """Images and files with a notice before them; None for what is text anyway."""
    parts = result if isinstance(result, list) else [result]
    if not parts or not all(isinstance(part, RICH) for part in parts):
        return None
    return [ToolOutputText(text=notice), *parts]
