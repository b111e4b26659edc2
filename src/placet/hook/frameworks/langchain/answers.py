"""Interruptions and answers as LangGraph stores and shows them, and reading them back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt

from placet.errors import InvalidFeedback
from placet.hook.answer_validation import NOT_ANSWERS, Feedback
from placet.hook.feedback import ToolFeedback
from placet.hook.frameworks.langchain.hitl_request import (
    REQUEST_MEMBERS,
    ShownCalls,
    build_hitl_request,
    build_tool_approval,
    read_hitl_response,
)
from placet.hook.frozen_values import replace
from placet.hook.interruption import InterruptionMetadata

DECISION_MEMBERS = ("result", "reason", "answer", "decided_by", "not_run")
INTERRUPT = "interrupt"
INTERRUPTION_KEYWORD = "x-placet-interruption"
"""The member of an interrupt's schema with the interruption, if the value is LangChain's only."""
TURN_KEY = "turn_key"
"""The key under which the gate keeps the turn."""


def encode_interruption(
    interruption: InterruptionMetadata, where: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return an interruption with its decisions as plain JSON, for LangGraph to show and store.

    `where` is the run's `configurable`: it has the thread id, and the graphs around the interrupted one.
    """
    place = where or {}
    path = [graph.partition(":")[0] for graph in place.get("checkpoint_ns", "").split("|")[:-1]]
    members = interruption.to_dict()
    members["thread_id"] = str(place.get("thread_id", interruption.thread_id))
    for call in members["tool_feedbacks"]:
        _to_plain_json(call, path)
    said = {
        each.id: _decision_to_dict(each) for each in interruption.tool_feedbacks if each.result is not None
    }
    case = None if interruption.case is None else dict(interruption.case)
    return {
        **members,
        "said": said,
        "case": case,
        TURN_KEY: interruption.state.get(TURN_KEY, interruption.thread_id),
    }


def show_interruption(
    interruption: InterruptionMetadata, where: Mapping[str, Any], *, is_single: bool = False
) -> dict[str, Any]:
    """Return the value of an interrupt: the interruption in our form, and in LangChain's."""
    shown = encode_interruption(interruption, where) | build_hitl_request(interruption)
    return shown | build_tool_approval(interruption.tool_feedbacks[0]) if is_single else shown


def decode_interruption(value: Mapping[str, Any], interrupt_id: str | None = None) -> InterruptionMetadata:
    """Return what `encode_interruption` wrote; `interrupt_id` becomes the interruption's state."""
    members = {name: each for name, each in value.items() if name not in REQUEST_MEMBERS}
    said, case = members.pop("said", {}), members.pop("case", None)
    state = {TURN_KEY: members.pop(TURN_KEY, "")}
    if interrupt_id is not None:
        state[INTERRUPT] = interrupt_id
    interruption = InterruptionMetadata.from_dict(members, state=state)
    if said:
        calls = tuple(replace(each, **said.get(each.id, {})) for each in interruption.tool_feedbacks)
        interruption = replace(interruption, tool_feedbacks=calls)
    return interruption if case is None else replace(interruption, case=case)


def encode_answer(feedback: Feedback | None) -> dict[str, Any]:
    """Return answers as plain JSON."""
    if isinstance(feedback, InterruptionMetadata):
        answered = encode_interruption(feedback)
        for call in answered["tool_feedbacks"]:
            call["schema"] = None  # not needed in an answer
        return {"interruption": answered}
    if feedback is None or isinstance(feedback, Mapping):
        return {"decisions": feedback if feedback is None else dict(feedback)}
    return {
        "tool_feedbacks": [
            {**_to_plain_json(each.to_dict()), **_decision_to_dict(each)} for each in check_feedback(feedback)
        ]
    }


def decode_answer(answer: Any, find_shown: Callable[[], ShownCalls]) -> Feedback | None:
    """Return answers as the gate takes them, given by call id, in LangChain's form, or by `encode_answer`."""
    read = read_hitl_response(answer, find_shown)
    if read is not None:
        return read
    if not isinstance(answer, Mapping):
        raise InvalidFeedback("Answer with decisions by call id.")
    try:
        match dict(answer):
            case {"interruption": Mapping() as value, **rest} if not rest:
                return decode_interruption(value)
            case {"tool_feedbacks": list() as calls, **rest} if not rest:
                return [ToolFeedback.from_dict(each) for each in calls]
            case {"decisions": None | Mapping() as said, **rest} if not rest:
                return said
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidFeedback("These answers cannot be read; nothing was stored.") from error
    return answer


def find_interrupts(result: Any) -> dict[str, InterruptionMetadata]:
    """Return what waits in a result, a stream chunk or a snapshot: interrupt id -> interruption."""
    if isinstance(result, tuple) and not hasattr(result, "interrupts"):
        result = result[-1] if result else None
    if isinstance(result, Mapping) and "__interrupt__" not in result:
        result = result.get("data", result)
    found = result.get("__interrupt__") if isinstance(result, Mapping) else getattr(result, "interrupts", ())
    said = {each.id: _read_interrupt(each) for each in found or ()}
    return {each: decode_interruption(value, each) for each, value in said.items() if value is not None}


def _read_interrupt(asked: Interrupt[Any]) -> Mapping[str, Any] | None:
    """Return the interruption from an interrupt's value, or from its schema, if it is one of ours."""
    schema = asked.response_schema
    for each in (asked.value, schema.get(INTERRUPTION_KEYWORD) if isinstance(schema, dict) else None):
        if isinstance(each, Mapping) and "digest" in each:
            return each
    return None


def check_feedback(feedback: Iterable[ToolFeedback]) -> list[ToolFeedback]:
    answered = list(feedback)
    if not all(isinstance(each, ToolFeedback) for each in answered):
        raise InvalidFeedback(NOT_ANSWERS)
    return answered


def _to_plain_json(call: dict[str, Any], path: Sequence[str] = ()) -> dict[str, Any]:
    """Return a waiting call as plain JSON, with the path from the outermost graph."""
    call["allowed_decisions"] = [str(decision) for decision in call["allowed_decisions"]]
    call["path"] = [*path, *call["path"]]
    return call


def _decision_to_dict(feedback: ToolFeedback) -> dict[str, str]:
    """Return the decision as plain texts, because LangGraph's checkpoints refuse unknown types."""
    return {
        name: str(getattr(feedback, name)) for name in DECISION_MEMBERS if getattr(feedback, name) is not None
    }
