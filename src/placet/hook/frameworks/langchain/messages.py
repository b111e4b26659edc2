"""Calls, turns and results in the messages of a LangGraph thread."""

import dataclasses
import operator
from base64 import b64decode, b64encode
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from langchain.agents.middleware import ExtendedModelResponse, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import get_runtime
from langgraph.types import Command
from pydantic import BaseModel

from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.interruption import InterruptionMetadata
from placet.hook.result_texts import describe_result, get_refusal
from placet.hook.tool_call import ToolCall
from placet.hook.tools import copy_arguments

SERDE = JsonPlusSerializer()
MSGPACK_PREFIX, TEXT_PREFIX = "msgpack:", "text:"
CHECKPOINTER = "__pregel_checkpointer"
OPEN_SCHEMA = frozenset(
    {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "unevaluatedProperties"}
)
"""Members with which a schema says itself which other arguments it allows, or may allow more."""


def build_turn_key(thread_id: str, graph: str, turn_id: str | None) -> str:
    """Return the key of a turn: the thread, the graph inside it, and the model's reply."""
    return f"{thread_id}/{graph}/{turn_id or ''}"


def build_call_key(turn_key: str, call: Mapping[str, Any]) -> str:
    """Return the key of a call that is asked about alone."""
    return f"{turn_key}#{quote(call['id'] or '', safe='')}"


def find_thread_id(key: str) -> str:
    """Return the thread of a turn's key, or of a call's."""
    return key.rsplit("/", 2)[0]


def has_checkpointer(config: Mapping[str, Any]) -> bool:
    """Return whether the graph, or one around it, stores its threads; True if that is unknown."""
    where = config.get("configurable", {})
    return CHECKPOINTER not in where or where[CHECKPOINTER] not in (None, False)


def current_run() -> Hashable:
    """Return an object that identifies the graph's run; None if LangGraph does not provide it."""
    run: Hashable = getattr(get_runtime(), "control", None)
    return run


def find_turn(messages: Sequence[BaseMessage], call_id: str | None = None) -> AIMessage | None:
    """Return the model's last reply if it calls tools; or the last reply with this call."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            calls = message.tool_calls
            if call_id is None:
                return message if calls else None
            if call_id in [call["id"] for call in calls]:
                return message
    return None


def split_at_turn(
    messages: Sequence[BaseMessage],
) -> tuple[AIMessage | None, list[ToolMessage], list[BaseMessage]]:
    """Return the last reply if it calls tools, its results, and other messages after it.

    None for a reply that has all results and nothing else after it.
    """
    since: list[BaseMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        since.insert(0, message)
    else:
        return None, [], []
    answers = [each for each in since if isinstance(each, ToolMessage)]
    later = [each for each in since if not isinstance(each, ToolMessage)]
    complete = len(answers) >= len(message.tool_calls) and not later
    return (None, [], []) if complete or not message.tool_calls else (message, answers, later)


def find_early_results(
    answers: Sequence[ToolMessage], stopped: Iterable[InterruptionMetadata]
) -> list[ToolMessage]:
    """Return results of calls that wait for a decision.

    Other middleware writes them when a message arrives, as that of deep agents does.
    """
    waiting: set[str] = set()
    for turn in stopped:
        if turn.undecided:
            waiting.update(each.id for each in turn.tool_feedbacks)
            waiting.update(call.id for call in turn.tools_automatically_approved)
    return [each for each in answers if each.tool_call_id in waiting]


def find_open_calls(turn: AIMessage, messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the calls of a turn without a result among the later messages."""
    since = takewhile(lambda message: message is not turn, reversed(messages))
    answered = {message.tool_call_id for message in since if isinstance(message, ToolMessage)}
    return [call for call in turn.tool_calls if call["id"] not in answered]


def sort_by_call(turn: AIMessage, answers: Sequence[ToolMessage]) -> list[ToolMessage]:
    """Return a turn's results in call order."""
    order = {call["id"]: place for place, call in enumerate(turn.tool_calls)}
    return sorted(answers, key=lambda answer: order.get(answer.tool_call_id, len(order)))


def to_tool_call(call: Mapping[str, Any]) -> ToolCall:
    """Return LangChain's tool call as a ToolCall."""
    return ToolCall(id=call["id"] or "", name=call["name"], arguments=dict(call["args"]))


def snapshot_call(call: Mapping[str, Any]) -> ToolCall:
    """Like `to_tool_call`, but independent of later changes to LangChain's object."""
    return ToolCall(id=call["id"] or "", name=call["name"], arguments=copy_arguments(call["args"]))


def find_feedback(interruption: InterruptionMetadata, call: Mapping[str, Any]) -> ToolFeedback | None:
    """Return the call's feedback with its decision; None if the call was not stopped."""
    return next((each for each in interruption.tool_feedbacks if each.id == (call["id"] or "")), None)


def is_auto_approved(interruption: Any, call: Mapping[str, Any]) -> bool:
    """Return whether the call needed no review and waited with its turn; it must be unchanged."""
    return (
        isinstance(interruption, InterruptionMetadata)
        and to_tool_call(call) in interruption.tools_automatically_approved
    )


def read_schema(tool: BaseTool, *, is_closed: bool = True) -> Mapping[str, Any] | None:
    """Return the schema of the tool's arguments; if `is_closed`, no edit may add others to them.

    LangChain drops arguments that the tool does not have, so that an edit with a misspelled name would run
    with the default value.
    """
    given = tool.tool_call_schema
    if isinstance(given, dict):
        schema: Mapping[str, Any] = given
    elif issubclass(given, BaseModel):
        schema = given.model_json_schema()
    else:
        return None
    closes = is_closed and OPEN_SCHEMA.isdisjoint(schema)
    return {**schema, "additionalProperties": False} if closes else schema


def list_provider_tools(tools: Iterable[Any]) -> list[str]:
    """Return the names of the tools that are given as a provider's own description, such as a web search."""
    described = [each for each in tools if isinstance(each, Mapping) and each.get("type") != "function"]
    return [str(each.get("name") or each.get("type") or "") for each in described]


def build_refusal(call: Mapping[str, Any], decided: ToolFeedback | None) -> ToolMessage | None:
    """Return what the model reads instead of a result, if the call is not to run."""
    if decided is None or decided.result is None or decided.result is FeedbackResult.APPROVED:
        return None
    text = get_refusal(decided)
    return (
        None
        if text is None
        else build_tool_message(call, text, ok=decided.result is FeedbackResult.RESPONDED)
    )


def apply_decision(request: ToolCallRequest, decided: ToolFeedback | None) -> ToolCallRequest | ToolMessage:
    """Return the call exactly as approved, even if other middleware has changed it since."""
    call = request.tool_call
    if decided is None or (decided.name == call["name"] and decided.arguments == call["args"]):
        return request
    changed: Any = {**call, "name": decided.name, "args": copy_arguments(decided.arguments)}
    if decided.name == call["name"]:
        return request.override(tool_call=changed)
    tool = next((each for each in request.runtime.tools if each.name == decided.name), None)
    if tool is None:
        return build_tool_message(call, f"There is no tool {decided.name} any more; nothing was run.")
    return request.override(tool_call=changed, tool=tool)


def build_tool_message(call: Mapping[str, Any], text: str, *, ok: bool = False) -> ToolMessage:
    """Return a result for a call that no tool produced."""
    status = "success" if ok else "error"
    return ToolMessage(content=text, name=call["name"], tool_call_id=call["id"], status=status)


def announce_edit(result: Any, asked: ToolCall, ran: ToolCall) -> Any:
    """Return the result of an edited call with a notice of the edit."""
    if isinstance(result, list):
        return [announce_edit(each, asked, ran) for each in result]
    if isinstance(result, Command) and isinstance(result.update, dict):
        messages = [announce_edit(each, asked, ran) for each in result.update.get("messages", ())]
        return dataclasses.replace(result, update={**result.update, "messages": messages})
    if not isinstance(result, ToolMessage) or result.tool_call_id != asked.id:
        return result
    if isinstance(result.content, str):
        return result.model_copy(update={"content": describe_result(asked, ran, result.content)})
    notice = {"type": "text", "text": describe_result(asked, ran, "")}
    return result.model_copy(update={"content": [notice, *result.content]})


def encode_result(call: Mapping[str, Any], result: Any) -> str:
    """Return a result as text, so that it can be returned again without running the tool."""
    if _is_plain_text(call, result):
        return f"{TEXT_PREFIX}{result.content}"
    try:
        return MSGPACK_PREFIX + b64encode(SERDE.dumps_typed(result)[1]).decode("ascii")
    except (TypeError, ValueError):
        return "The tool ran; its result could not be stored."


def decode_result(call: Mapping[str, Any], stored: str) -> Any:
    """Return what `encode_result` wrote, or a message with one of our texts."""
    if stored.startswith(MSGPACK_PREFIX):
        return SERDE.loads_typed(("msgpack", b64decode(stored.removeprefix(MSGPACK_PREFIX))))
    if stored.startswith(TEXT_PREFIX):
        return build_tool_message(call, stored.removeprefix(TEXT_PREFIX), ok=True)
    return build_tool_message(call, stored)


def _is_plain_text(call: Mapping[str, Any], result: Any) -> bool:
    """Return whether a result is only a text, as `build_tool_message` builds it."""
    return (
        type(result) is ToolMessage
        and type(result.content) is str
        and (result.name, result.tool_call_id, result.status) == (call["name"], call["id"], "success")
        and result.id is result.artifact is None
        and not (result.additional_kwargs or result.response_metadata or result.model_extra)
    )


def build_removals(removed: Sequence[BaseMessage], thread: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages that remove these messages from the thread, which is written anew if one has no id."""
    named = [RemoveMessage(id=each.id) for each in removed if each.id]
    if len(named) == len(removed):
        return [*named]
    kept = [each for each in thread if not any(each is gone for gone in removed)]
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]


def apply_changes(
    changes: Sequence[BaseMessage],
    response: Any,
    before: Iterable[BaseMessage] | None = None,
    *,
    kept: Collection[str | None] = (),
) -> Any:
    """Return a model's reply that also changes the thread, with unique call ids.

    If `before` is given, ids are also unique among those messages: an old answer must not fit a new call.
    Calls may also have one of the ids in `kept`, which are otherwise replaced.
    """
    if isinstance(response, ExtendedModelResponse):
        changed = apply_changes(changes, response.model_response, before, kept=kept)
        return dataclasses.replace(response, model_response=changed)
    said = [response] if isinstance(response, AIMessage) else response.result
    known = {call["id"] for each in before or () for call in read_calls(each)}
    replies = _make_call_ids_unique(said, known, kept)
    if not changes and all(map(operator.is_, replies, said)):
        return response
    if isinstance(response, AIMessage):
        return ModelResponse(result=[*changes, *replies])
    return dataclasses.replace(response, result=[*changes, *replies])


def _make_call_ids_unique(
    said: Sequence[BaseMessage], known: set[str | None], kept: Collection[str | None]
) -> list[BaseMessage]:
    """Return replies with unique call ids: a model may repeat ids, or send none."""
    renamed: dict[str | None, str] = {}
    replies: list[BaseMessage] = []
    for each in said:
        calls: list[Any] = []
        for call in read_calls(each):
            call_id = call["id"]
            if call_id in known or (not call_id and call_id not in kept):
                call_id = f"call_{uuid4().hex}"
                renamed.setdefault(call["id"], call_id)
            known.add(call_id)
            calls.append(call if call_id == call["id"] else {**call, "id": call_id})
        if calls != read_calls(each):
            replies.append(each.model_copy(update={"tool_calls": calls}))
        elif (
            isinstance(each, ToolMessage) and each.tool_call_id in renamed
        ):  # result of a structured output call
            replies.append(each.model_copy(update={"tool_call_id": renamed[each.tool_call_id]}))
        else:
            replies.append(each)
    return replies


def read_calls(message: BaseMessage) -> Sequence[Any]:
    return message.tool_calls if isinstance(message, AIMessage) else []
