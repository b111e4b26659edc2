"""Converting calls, decisions and errors between the OpenAI Agents SDK's form and ours."""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    HostedMCPTool,
    LocalShellTool,
    RunState,
    ShellTool,
    Tool,
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
from placet.hook.feedback import FeedbackResult
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import get_refusal, to_text
from placet.hook.tool_call import Arguments, ToolCall, read_arguments

ENVELOPE_MEMBERS = ("type", "id", "call_id", "status", "agent", "created_by")
"""Members of an SDK call that do not describe what it does."""
ToolView = Callable[[ToolContext[Any]], ToolContext[Any]]
LOCAL_TOOLS = (FunctionTool, CustomTool, ComputerTool, ApplyPatchTool, LocalShellTool)
RICH_OUTPUT_TYPES = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def read_waiting_call(item: ToolApprovalItem) -> ToolCall | None:
    """Return the waiting call; None if its arguments cannot be parsed."""
    raw: Any = item.raw_item
    given = raw.get("arguments") if isinstance(raw, dict) else getattr(raw, "arguments", None)
    arguments = _read_sdk_call(raw) if given is None else parse_arguments(given)
    if arguments is None:
        return None
    return ToolCall(id=item.call_id or "", name=item.name or "", arguments=arguments)


def _read_sdk_call(raw: Any) -> Arguments:
    members = to_jsonable_python(raw, fallback=str).items()
    return {name: said for name, said in members if name not in ENVELOPE_MEMBERS and said is not None}


def build_call_key(call: ToolCall) -> str:
    """Return a key of the whole call, because another call may have the same id."""
    return f"{call.id}/{call.name}/{json.dumps(call.arguments, sort_keys=True)}"


def is_agent(tool: FunctionTool) -> bool:
    """Return whether the tool runs another agent."""
    return bool(getattr(tool, "_is_agent_tool", False))


def runs_at_provider(tool: Tool) -> bool:
    """Return whether the model's provider runs the tool, without asking this program about a call."""
    if isinstance(tool, HostedMCPTool):
        # The provider asks about all calls by default.
        asks = tool.tool_config.get("require_approval") in (None, "always")
        return not asks or tool.on_approval_request is not None
    if isinstance(tool, ShellTool):
        return tool.executor is None
    return not isinstance(tool, LOCAL_TOOLS)


def parse_arguments(given: Any) -> Arguments | None:
    """Return arguments as a dict; None if they are not a JSON object."""
    try:
        return read_arguments(given)
    except InvalidFeedback:
        return None


def edit_context(context: ToolContext[Any], ran: ToolCall) -> ToolContext[Any]:
    """Return the context of a call as the reviewer edited it."""
    edited = copy.copy(context)
    edited.tool_name, edited.tool_arguments = ran.name, json.dumps(ran.arguments)
    return edited


def wrap_guardrail(guardrail: ToolInputGuardrail[Any], shown: ToolView) -> ToolInputGuardrail[Any]:
    """Return the guardrail, applied to the call as `shown` returns it."""

    def apply_guardrail(data: ToolInputGuardrailData) -> Any:
        return guardrail.guardrail_function(replace(data, context=shown(data.context)))

    return replace(guardrail, guardrail_function=apply_guardrail, name=guardrail.get_name())


async def run_guardrails(tool: FunctionTool, context: ToolContext[Any]) -> str | None:
    """Return the refusal of the tool's guardrails; the SDK runs only those of the original tool."""
    agent: Any = context.agent
    for guardrail in tool.tool_input_guardrails or ():
        said = await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))
        if said.behavior["type"] == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(guardrail, said)
        if said.behavior["type"] == "reject_content":
            return said.behavior["message"]
    return None


def apply_decisions(state: RunState[Any], decided: InterruptionMetadata) -> dict[str, ToolCall]:
    """Pass the decisions to the SDK; edits and responses are applied when it invokes the tool.

    Returns the decided calls as they were requested.
    """
    asked: dict[str, ToolCall] = {}
    feedbacks = {feedback.id: feedback for feedback in decided.tool_feedbacks}
    automatic = {call.id for call in decided.tools_automatically_approved}
    for item in state.get_interruptions():
        feedback = feedbacks.get(item.call_id or "")
        if (call := read_waiting_call(item)) is not None:
            asked.setdefault(call.id, call)
        if item.call_id in automatic:
            state.approve(item)
        elif feedback is not None and feedback.result is FeedbackResult.REJECTED:
            state.reject(item, rejection_message=get_refusal(feedback))
        elif feedback is not None and feedback.result is not None:
            state.approve(item)
    return asked


def find_agents(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return the agent, and those that it may call as tools or hand over to, as far as they are known."""
    found: list[Agent[Any]] = []
    left = [agent]
    while left:
        each = left.pop()
        if any(each is known for known in found):
            continue
        found.append(each)
        inner = [getattr(tool, "_agent_instance", None) for tool in each.tools]
        inner += [
            other if isinstance(other, Agent) else _find_handoff_agent(other) for other in each.handoffs
        ]
        left += [other for other in inner if other is not None]
    return found


def _find_handoff_agent(handoff: Any) -> Any:
    """Return the agent behind a handoff, if it is known."""
    reference = getattr(handoff, "_agent_ref", None)
    return None if reference is None else reference()


@contextmanager
def unwrap_hook_errors() -> Iterator[None]:
    """Raise our gate's errors as they are; the SDK wraps errors of tools in its own."""
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, HookError):
            raise error.__cause__ from None
        raise


async def stop_streamed_run(result: RunResultStreaming, events: AsyncGenerator[Any, None]) -> None:
    """Stop a run whose consumer has gone; the SDK would finish it in the background."""
    if not result.is_complete:
        result.cancel()
    await events.aclose()
    if result.run_loop_task is not None:
        await asyncio.wait([result.run_loop_task])


def result_to_text(result: Any) -> str:
    """Return a tool's result as text."""
    return to_text(to_jsonable_python(result, fallback=str))


def prepend_notice(notice: str, result: Any) -> Any:
    """Return images and files with a notice before them; None for plain results."""
    parts = result if isinstance(result, list) else [result]
    if not parts or not all(isinstance(part, RICH_OUTPUT_TYPES) for part in parts):
        return None
    return [ToolOutputText(text=notice), *parts]
