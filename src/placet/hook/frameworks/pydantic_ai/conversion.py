"""Converting calls, results and runs between Pydantic AI's form and ours."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, get_args
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import AgentRunResult, BinaryContent, DeferredToolRequests, ToolReturn
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.messages import FileUrl, ModelMessage, ModelRequest, ModelResponse, ToolCallPart
from pydantic_core import to_json, to_jsonable_python

from placet.hook.result_texts import to_text
from placet.hook.tool_call import ToolCall, find_json_problem


def result_to_text(result: Any) -> str:
    """Return a tool's result as text."""
    value = result.return_value if isinstance(result, ToolReturn) else result
    return to_text(to_jsonable_python(value, fallback=str))


def prepend_notice(notice: str, result: Any) -> Any:
    """Return a rich result with a notice before it; None for plain results."""
    if isinstance(result, ToolReturn):
        return replace(result, return_value=f"{notice}{result_to_text(result)}")
    return [notice, result] if isinstance(result, BinaryContent | FileUrl) else None


def find_open_calls(messages: Sequence[ModelMessage]) -> tuple[str, list[ToolCallPart]]:
    """Return the id of the model's last reply, and its calls without a result."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            name = f"{message.run_id}/{message.timestamp.isoformat()}"
            return name, [part for part in message.tool_calls if part.tool_call_id not in answered]
        if isinstance(message, ModelRequest):
            answered |= {str(getattr(part, "tool_call_id", "")) for part in message.parts}
    return "", []


def sort_by_call(parts: Sequence[ToolCallPart], messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return deferred calls in call order: the framework lists those of conditional tools last."""
    order = {part.tool_call_id: place for place, part in enumerate(find_open_calls(messages)[1])}
    return sorted(parts, key=lambda part: order.get(part.tool_call_id, len(order)))


def to_tool_call(part: ToolCallPart) -> ToolCall:
    """Return the framework's tool call as a ToolCall."""
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_dict())


def make_call_ids_unique(response: ModelResponse, before: Sequence[ModelMessage]) -> ModelResponse:
    """Return the reply with call ids that are unique in the thread: an old answer must not fit a new call."""
    replies = (
        message for message in before if isinstance(message, ModelResponse) and message is not response
    )
    known = {part.tool_call_id for message in replies for part in message.tool_calls}
    parts: list[Any] = []
    for part in response.parts:
        parts.append(part)
        if isinstance(part, ToolCallPart):
            if part.tool_call_id in known:
                parts[-1] = replace(part, tool_call_id=f"call_{uuid4().hex}")
            known.add(parts[-1].tool_call_id)
    return response if parts == [*response.parts] else replace(response, parts=parts)


def encode_reviewed_arguments(response: ModelResponse, may_wait: Callable[[str], bool]) -> ModelResponse:
    """Return the reply in which calls that may wait have the arguments with which they are stored.

    A number that JSON lacks, such as Infinity, is stored as null. A reviewer must see what will run.
    """
    parts: list[Any] = [
        _encode_arguments(part) if isinstance(part, ToolCallPart) and may_wait(part.tool_name) else part
        for part in response.parts
    ]
    return response if parts == [*response.parts] else replace(response, parts=parts)


def _encode_arguments(part: ToolCallPart) -> ToolCallPart:
    try:
        given = part.args_as_dict()
        if find_json_problem(given) is None:
            return part
        return replace(part, args=to_json(given, inf_nan_mode="null").decode())
    except ValueError:  # not JSON at all: the framework refuses the call
        return part


def encode_paused_run(result: AgentRunResult[Any]) -> str:
    """Return the framework's state as text; the gate stores the waiting calls."""
    conversation = result.conversation
    conversation.deferred_tool_requests = None
    return ConversationTypeAdapter.dump_json(conversation).decode()


def decode_conversation(state: str) -> Conversation:
    """Return the framework's state from a paused run or from a result."""
    conversation = ConversationTypeAdapter.validate_json(state)
    conversation.new_message_index = None  # in a result, this is the index of the run's own messages
    return conversation


def add_deferred_type(output_type: Any) -> Any:
    """Return the output types with the one of a stopped run; None if it is already included."""
    types = [*output_type] if isinstance(output_type, list | tuple) else [output_type]
    among = any(each is DeferredToolRequests or DeferredToolRequests in get_args(each) for each in types)
    return None if among else [*types, DeferredToolRequests]


def decode_result(kind: Any, state: str) -> AgentRunResult[Any]:
    """Return a stored result; its output is plain data if it does not match the agent's type."""
    if isinstance(kind, type):
        with suppress(ValidationError):
            return build_result_adapter(kind).validate_json(state)
    return build_result_adapter(Any).validate_json(state)


@cache
def build_result_adapter(kind: Hashable) -> TypeAdapter[AgentRunResult[Any]]:
    """Return the adapter for results with this output type."""
    return TypeAdapter(AgentRunResult[kind])  # type: ignore[valid-type]


def call_from_given(
    part: ToolCallPart, tool_args: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> ToolCall:
    """Return the call with what its tool is given, in the form in which the model sends it.

    The framework may have converted the arguments, or a capability may have changed them. Default values
    that the model did not send are left out.
    """
    sent, given = part.args_as_dict(), to_jsonable_python(dict(tool_args), fallback=str)
    if len(given) == 1 and not given.keys() & sent.keys():
        (whole,) = given.values()  # for a tool with one model parameter, the model's members are sent
        given = whole if isinstance(whole, dict) else given
    said = (schema or {}).get("properties", {})
    by_default = {name: value["default"] for name, value in said.items() if "default" in value}
    more = {name: value for name, value in given.items() if name not in sent}
    added = {
        name: value for name, value in more.items() if name not in by_default or by_default[name] != value
    }
    return ToolCall(
        id=part.tool_call_id, name=part.tool_name, arguments={**_merge_given(sent, given), **added}
    )


def _merge_given(sent: Any, given: Any) -> Any:
    """Return sent values as the tool gets them; a value whose JSON type changed stays as sent."""
    if isinstance(sent, dict) and isinstance(given, dict):
        return {name: _merge_given(value, given[name]) for name, value in sent.items() if name in given}
    if isinstance(sent, list) and isinstance(given, list) and len(sent) == len(given):
        return [_merge_given(*pair) for pair in zip(sent, given, strict=True)]
    return given if type(sent) is type(given) else sent
