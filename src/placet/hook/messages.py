"""The messages of a thread: plain dicts, built and parsed only here."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from placet.errors import ModelMisbehaved
from placet.hook.checkpoint import Message
from placet.hook.tool_call import ToolCall, find_json_problem

_MAX_INTEGER_BITS = 64
UnreadableCalls = dict[str, str]
"""Call id -> why its arguments could not be read."""


def build_user_message(text: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": text}


def build_result_message(call: ToolCall, text: str) -> Message:
    """Return a message with the result of a call."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text}


def read_assistant_message(
    reply: Any, before: Iterable[Message] = ()
) -> tuple[Message, list[ToolCall], UnreadableCalls]:
    """Return the model's reply in normal form: unique call ids, and arguments as dicts.

    No call shares its id with a call in the messages `before`: an old answer must not fit a new call.
    Raises ModelMisbehaved if the reply is not an assistant message. A plain text is one.
    """
    if isinstance(reply, str):
        reply = {"content": reply}
    if type(reply) is not dict and not isinstance(reply, Mapping):
        raise ModelMisbehaved(f"The model replied with {type(reply).__name__}, not with a message.")
    asked = reply.get("tool_calls") or ()
    if not isinstance(asked, list | tuple) or not all(map(_is_mapping, asked)):
        raise ModelMisbehaved("The model's tool_calls are not a list of calls.")
    calls: list[ToolCall] = []
    unreadable: UnreadableCalls = {}
    taken = {call["id"] for message in before for call in message.get("tool_calls", ())} if asked else set()
    for number, call in enumerate(asked, 1):
        calls.append(_read_call(call, number, taken, unreadable))
        taken.add(calls[-1].id)
    message = {**reply, "role": "assistant", "content": reply.get("content") or ""}
    message.pop("tool_calls", None)
    if not all(map(_is_text, message.values())) and (trouble := find_json_problem(message)):
        raise ModelMisbehaved(f"The model's message is not JSON ({trouble}).")
    return (
        (message | {"tool_calls": [call.to_dict() for call in calls]} if calls else message),
        calls,
        unreadable,
    )


def read_tool_calls(message: Message) -> list[ToolCall]:
    """Return the calls of a stored assistant message."""
    return [ToolCall(**call) for call in message.get("tool_calls", ())]


def _read_call(
    asked: Mapping[str, Any], number: int, taken: Collection[str], unreadable: UnreadableCalls
) -> ToolCall:
    name = asked.get("name")
    if not isinstance(name, str) or not name:
        raise ModelMisbehaved("The model requested a call without a tool name.")
    given = asked.get("id")
    call_id = given if isinstance(given, str) and given else f"call_{number}"
    while call_id in taken:
        call_id = f"{call_id}_{number}"
    arguments, trouble = _read_message_arguments(asked.get("arguments"))
    if trouble is not None:
        unreadable[call_id] = trouble
    return ToolCall(id=call_id, name=name, arguments=arguments)


def _is_mapping(value: object) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _survives_json(given: Mapping[Any, Any]) -> bool:
    """Return whether the arguments are certainly equal after a JSON round trip, as most are."""
    for name, value in given.items():
        if type(name) is not str or not name.isascii():
            return False
        kind = type(value)
        if kind is str:
            if not value.isascii():
                return False
        elif kind is int:
            if value.bit_length() >= _MAX_INTEGER_BITS:
                return False
        elif kind is not bool and value is not None:
            return False
    return True


def _read_message_arguments(given: Any) -> tuple[dict[str, Any], str | None]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError) as error:
            return {}, f"the arguments are not JSON ({error})"
    if given is None:
        return {}, None
    if not _is_mapping(given):
        return {}, "the arguments are not an object"
    if _survives_json(given):
        return dict(given), None
    if trouble := find_json_problem(arguments := dict(given)):
        return {}, f"the arguments are not JSON ({trouble})"
    return json.loads(json.dumps(arguments)), None  # as they will be loaded: a tuple becomes a list
