"""How interruptions, answers, calls and results travel through LangGraph; nothing here decides."""

import dataclasses
import operator
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import ExtendedModelResponse, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.runtime import get_runtime
from langgraph.types import Command, Interrupt
from pydantic import BaseModel

from placet.errors import InvalidFeedback, NothingToResume
from placet.hook.answers import NO_ANSWERS, Feedback, answers_in
from placet.hook.calls import ToolCall
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.interruption import InterruptionMetadata
from placet.hook.outcomes import refusal, told
from placet.hook.tools import copied
from placet.hook.values import replace

SAID = ("result", "reason", "answer", "decided_by")
SERDE = JsonPlusSerializer()
KEPT, SAID_PLAINLY = "msgpack:", "text:"
INTERRUPT = "interrupt"
STRICT = "__pregel_strict_resume"


def encoded(interruption: InterruptionMetadata, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An interruption with its decisions as plain JSON: what LangGraph shows and keeps.

    `where` is the run's `configurable`: it knows the thread, and the graphs around the one that asks.
    """
    place = where or {}
    path = [graph.partition(":")[0] for graph in place.get("checkpoint_ns", "").split("|")[:-1]]
    kept = interruption.to_dict()
    kept["thread_id"] = str(place.get("thread_id", interruption.thread_id))
    for call in kept["tool_feedbacks"]:
        _spell(call, path)
    said = {each.id: _said(each) for each in interruption.tool_feedbacks if each.result is not None}
    case = None if interruption.case is None else dict(interruption.case)
    return {**kept, "said": said, "case": case}


def decoded(value: Mapping[str, Any], interrupt_id: str | None = None) -> InterruptionMetadata:
    """What `encoded` wrote; where LangGraph's interrupt is known, its id is the interruption's state."""
    kept = dict(value)
    said, case = kept.pop("said", {}), kept.pop("case", None)
    state = None if interrupt_id is None else {INTERRUPT: interrupt_id}
    interruption = InterruptionMetadata.from_dict(kept, state=state)
    if said:
        calls = tuple(replace(each, **said.get(each.id, {})) for each in interruption.tool_feedbacks)
        interruption = replace(interruption, tool_feedbacks=calls)
    return interruption if case is None else replace(interruption, case=case)


def encoded_answer(feedback: Feedback | None) -> dict[str, Any]:
    """Answers as plain JSON."""
    if isinstance(feedback, InterruptionMetadata):
        answered = encoded(feedback)
        for call in answered["tool_feedbacks"]:
            call["schema"] = None  # it was only shown
        return {"interruption": answered}
    if feedback is None or isinstance(feedback, Mapping):
        return {"decisions": feedback if feedback is None else dict(feedback)}
    return {"tool_feedbacks": [{**_spell(each.to_dict()), **_said(each)} for each in _checked(feedback)]}


def decoded_answer(answer: Any) -> Feedback | None:
    """Answers as the gate takes them: what `encoded_answer` wrote, or decisions by call id."""
    if not isinstance(answer, Mapping):
        raise InvalidFeedback("Answer with decisions by call id.")
    try:
        match dict(answer):
            case {"interruption": Mapping() as value, **rest} if not rest:
                return decoded(value)
            case {"tool_feedbacks": list() as calls, **rest} if not rest:
                return [ToolFeedback.from_dict(each) for each in calls]
            case {"decisions": None | Mapping() as said, **rest} if not rest:
                return said
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidFeedback("These answers cannot be read; nothing was stored.") from error
    return answer


def interrupts_in(result: Any) -> list[Interrupt[Any]]:
    """Those of our interrupts that an agent's result, a chunk of its stream or a snapshot shows."""
    if isinstance(result, tuple) and not hasattr(result, "interrupts"):
        result = result[-1] if result else None
    if isinstance(result, Mapping) and "__interrupt__" not in result:
        result = result.get("data", result)
    found = result.get("__interrupt__") if isinstance(result, Mapping) else getattr(result, "interrupts", ())
    return [each for each in found or () if isinstance(each.value, Mapping) and "digest" in each.value]


def goes_on(snapshot: Any) -> bool:
    """Whether the thread has work left; raises NothingToResume if it was never begun, or waits for others."""
    if snapshot.created_at is None or (snapshot.interrupts and not interrupts_in(snapshot)):
        raise NothingToResume
    return bool(snapshot.tasks)  # `next` leaves out what has run, also if it was cut off before it went on


def input_for(snapshot: Any, feedback: Feedback | None) -> Command[Any] | None:
    """What to invoke the agent with: the answers, each addressed to the interrupt that asked for them."""
    feedback = answers_in(feedback)
    pending = {each.id: decoded(each.value) for each in interrupts_in(snapshot)}
    if not pending:  # it was cut off
        return Command(resume=encoded_answer(feedback)) if _may_be_asked(snapshot) else None
    if len(pending) == 1 or feedback is None:
        return Command(resume=dict.fromkeys(pending, encoded_answer(feedback)))
    return Command(resume=_shared_out(pending, feedback))


def addressed(feedback: Feedback | None) -> Command[Any] | None:
    """The answers, addressed to the interrupt that asked for them, if they say which one that was."""
    if not isinstance(feedback, InterruptionMetadata) or INTERRUPT not in feedback.state:
        return None
    return Command(resume={feedback.state[INTERRUPT]: encoded_answer(feedback)})


def strict(where: Mapping[str, Any]) -> dict[str, Any]:
    """The same config; LangGraph raises UnknownInterruptError if the interrupt does not wait any more.

    A LangGraph that does not know of this shows what waits instead.
    """
    return {**where, "configurable": {**where["configurable"], STRICT: True}}


def _may_be_asked(snapshot: Any) -> bool:
    """Whether calls may be before a person: at a tool all is decided, else the model is to make them yet."""
    messages = snapshot.values.get("messages", ()) if isinstance(snapshot.values, Mapping) else ()
    return "tools" not in snapshot.next and since_turn(messages)[0] is not None


def _shared_out(pending: Mapping[str, InterruptionMetadata], feedback: Feedback) -> dict[str, Any]:
    if isinstance(feedback, InterruptionMetadata):
        parts: dict[str, Any] = {each: feedback for each, asked in pending.items() if asked.id == feedback.id}
    else:
        said = feedback if isinstance(feedback, Mapping) else {each.id: each for each in _checked(feedback)}
        asking = [(each, {one.id for one in asked.tool_feedbacks}) for each, asked in pending.items()]
        owners = {call_id: [each for each, calls in asking if call_id in calls] for call_id in said}
        if wrong := [call_id for call_id, found in owners.items() if len(found) != 1]:
            raise InvalidFeedback(f"Not one call each, so nothing was stored: {', '.join(map(str, wrong))}.")
        parts = {
            each: {key: said[key] for key, [owner] in owners.items() if owner == each} for each in pending
        }
        if not isinstance(feedback, Mapping):
            parts = {each: list(part.values()) for each, part in parts.items()}
    if not any(parts.values()):
        raise InvalidFeedback("These answers belong to another interruption; nothing was stored.")
    return {each: encoded_answer(part) for each, part in parts.items() if part}


def _checked(feedback: Iterable[ToolFeedback]) -> list[ToolFeedback]:
    answered = list(feedback)
    if not all(isinstance(each, ToolFeedback) for each in answered):
        raise InvalidFeedback(NO_ANSWERS)
    return answered


def this_run() -> Hashable:
    """What tells the run of a graph from another; None with a LangGraph that does not know of it."""
    run: Hashable = getattr(get_runtime(), "control", None)
    return run


def turn_of(messages: Sequence[BaseMessage], call_id: str | None = None) -> AIMessage | None:
    """The model's last reply, if it calls tools; or the last that made this call."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            calls = message.tool_calls
            if call_id is None:
                return message if calls else None
            if call_id in [call["id"] for call in calls]:
                return message
    return None


def since_turn(
    messages: Sequence[BaseMessage],
) -> tuple[AIMessage | None, list[ToolMessage], list[BaseMessage]]:
    """The model's last reply, if it calls tools; its results; and what came before they were complete."""
    since: list[BaseMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        since.insert(0, message)
    else:
        return None, [], []
    answers = [each for each in since if isinstance(each, ToolMessage)]
    later = [each for each in since if not isinstance(each, ToolMessage)]
    complete = len(answers) >= len(message.tool_calls) and since == [*answers, *later]
    return (None, [], []) if complete else (message, answers, later)


def unanswered(turn: AIMessage, messages: Sequence[BaseMessage]) -> list[Any]:
    """The calls of a turn that none of the messages after it answers."""
    since = takewhile(lambda message: message is not turn, reversed(messages))
    told = {message.tool_call_id for message in since if isinstance(message, ToolMessage)}
    return [call for call in turn.tool_calls if call["id"] not in told]


def in_call_order(turn: AIMessage, answers: Sequence[ToolMessage]) -> list[ToolMessage]:
    """A turn's results as the model asked for them."""
    order = {call["id"]: place for place, call in enumerate(turn.tool_calls)}
    return sorted(answers, key=lambda answer: order.get(answer.tool_call_id, len(order)))


def call_of(call: Mapping[str, Any]) -> ToolCall:
    """LangChain's tool call as ours."""
    return ToolCall(id=call["id"] or "", name=call["name"], arguments=dict(call["args"]))


def as_it_is(call: Mapping[str, Any]) -> ToolCall:
    """As `call_of`; stays so whatever is made of LangChain's own later."""
    return ToolCall(id=call["id"] or "", name=call["name"], arguments=copied(call["args"]))


def found(standing: InterruptionMetadata, call: Mapping[str, Any]) -> ToolFeedback | None:
    """The call as it waited, with what was decided; None if it is none of those."""
    return next((each for each in standing.tool_feedbacks if each.id == (call["id"] or "")), None)


def waited(standing: Any, call: Mapping[str, Any]) -> bool:
    """Whether the call needed nobody, and waited with its turn; it must still be the same."""
    return (
        isinstance(standing, InterruptionMetadata) and call_of(call) in standing.tools_automatically_approved
    )


def schema_of(tool: BaseTool) -> Mapping[str, Any] | None:
    """What the model is told about the tool's arguments."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    return schema.model_json_schema() if issubclass(schema, BaseModel) else None


def refused(call: Mapping[str, Any], decided: ToolFeedback | None) -> ToolMessage | None:
    """What the model reads in place of a result, if the call is not to run."""
    if decided is None or decided.result is None or decided.result is FeedbackResult.APPROVED:
        return None
    verdict = Verdict(decision=decided.result, reason=decided.reason, answer=decided.answer)
    text = refusal(verdict)
    return None if text is None else message(call, text, ok=decided.result is FeedbackResult.RESPONDED)


def as_decided(request: ToolCallRequest, decided: ToolFeedback | None) -> ToolCallRequest | ToolMessage:
    """The call exactly as it was approved, whatever other middleware has made of it since."""
    call = request.tool_call
    if decided is None or (decided.name == call["name"] and decided.arguments == call["args"]):
        return request
    changed: Any = {**call, "name": decided.name, "args": copied(decided.arguments)}
    if decided.name == call["name"]:
        return request.override(tool_call=changed)
    tool = next((each for each in request.runtime.tools if each.name == decided.name), None)
    if tool is None:
        return message(call, f"There is no tool {decided.name} any more; nothing was run.")
    return request.override(tool_call=changed, tool=tool)


def message(call: Mapping[str, Any], text: str, *, ok: bool = False) -> ToolMessage:
    """An answer to a call that no tool gave."""
    status = "success" if ok else "error"
    return ToolMessage(content=text, name=call["name"], tool_call_id=call["id"], status=status)


def announced(result: Any, asked: ToolCall, ran: ToolCall) -> Any:
    """The result of an edited call, saying so."""
    if isinstance(result, list):
        return [announced(each, asked, ran) for each in result]
    if isinstance(result, Command) and isinstance(result.update, dict):
        messages = [announced(each, asked, ran) for each in result.update.get("messages", ())]
        return dataclasses.replace(result, update={**result.update, "messages": messages})
    if not isinstance(result, ToolMessage) or result.tool_call_id != asked.id:
        return result
    if isinstance(result.content, str):
        return result.model_copy(update={"content": told(asked, ran, result.content)})
    notice = {"type": "text", "text": told(asked, ran, "")}
    return result.model_copy(update={"content": [notice, *result.content]})


def preserved(call: Mapping[str, Any], result: Any) -> str:
    """A result as text, so that it can be given again instead of running the tool again."""
    if _is_plain(call, result):
        return f"{SAID_PLAINLY}{result.content}"
    try:
        return KEPT + b64encode(SERDE.dumps_typed(result)[1]).decode("ascii")
    except (TypeError, ValueError):
        return "The tool ran; what it answered could not be kept."


def revived(call: Mapping[str, Any], kept: str) -> Any:
    """What `preserved` wrote, or one of our own sentences."""
    if kept.startswith(KEPT):
        return SERDE.loads_typed(("msgpack", b64decode(kept.removeprefix(KEPT))))
    if kept.startswith(SAID_PLAINLY):
        return message(call, kept.removeprefix(SAID_PLAINLY), ok=True)
    return message(call, kept)


def _is_plain(call: Mapping[str, Any], result: Any) -> bool:
    """Whether a result says nothing but a text, as `message` makes it."""
    return (
        type(result) is ToolMessage
        and type(result.content) is str
        and (result.name, result.tool_call_id, result.status) == (call["name"], call["id"], "success")
        and result.id is result.artifact is None
        and not (result.additional_kwargs or result.response_metadata or result.model_extra)
    )


def removed(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What takes these messages out of the thread."""
    return [RemoveMessage(id=each.id) for each in messages if each.id]


def with_changes(
    changes: Sequence[BaseMessage], response: Any, before: Iterable[BaseMessage] | None = None
) -> Any:
    """A model's reply that also changes the thread before it; each of its calls has an id of its own.

    So it has in the thread, if the messages `before` are given: an old answer must not fit a new call.
    """
    if isinstance(response, ExtendedModelResponse):
        changed = with_changes(changes, response.model_response, before)
        return dataclasses.replace(response, model_response=changed)
    said = [response] if isinstance(response, AIMessage) else response.result
    replies = _told_apart(said, {call["id"] for each in before or () for call in _calls_in(each)})
    if not changes and all(map(operator.is_, replies, said)):
        return response
    if isinstance(response, AIMessage):
        return ModelResponse(result=[*changes, *replies])
    return dataclasses.replace(response, result=[*changes, *replies])


def _told_apart(said: Sequence[BaseMessage], known: set[str | None]) -> list[BaseMessage]:
    """Replies whose calls can be decided one by one: a model may name them alike, or not at all."""
    renamed: dict[str | None, str] = {}
    replies: list[BaseMessage] = []
    for each in said:
        calls: list[Any] = []
        for call in _calls_in(each):
            call_id = call["id"]
            if not call_id or call_id in known:
                call_id = f"call_{uuid4().hex}"
                renamed.setdefault(call["id"], call_id)
            known.add(call_id)
            calls.append(call if call_id == call["id"] else {**call, "id": call_id})
        if calls != _calls_in(each):
            replies.append(each.model_copy(update={"tool_calls": calls}))
        elif isinstance(each, ToolMessage) and each.tool_call_id in renamed:  # of a structured answer
            replies.append(each.model_copy(update={"tool_call_id": renamed[each.tool_call_id]}))
        else:
            replies.append(each)
    return replies


def _calls_in(message: BaseMessage) -> Sequence[Any]:
    return message.tool_calls if isinstance(message, AIMessage) else []


def _spell(call: dict[str, Any], path: Sequence[str] = ()) -> dict[str, Any]:
    """A waiting call in plain JSON, as it is seen from the graph that `path` begins at."""
    call["allowed_decisions"] = [str(decision) for decision in call["allowed_decisions"]]
    call["path"] = [*path, *call["path"]]
    return call


def _said(feedback: ToolFeedback) -> dict[str, str]:
    """The decision; plain text, because LangGraph's checkpoints refuse types they do not know."""
    return {name: str(getattr(feedback, name)) for name in SAID if getattr(feedback, name) is not None}
