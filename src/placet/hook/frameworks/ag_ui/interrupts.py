"""Converting between interruptions and AG-UI's interrupts and resume entries.

Each waiting call is one interrupt, with an id that names the interruption too. So an answer to a question
that is over fits no other one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import (
    Interrupt,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from placet.errors import InvalidFeedback, PlacetError
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.interruption import InterruptionMetadata

REASON = "tool_call"
METADATA_KEY = "placet"


def build_run_finished(*interruptions: InterruptionMetadata, thread_id: str, run_id: str) -> RunFinishedEvent:
    """Return the event that ends a run because calls wait for a reviewer."""
    outcome = RunFinishedInterruptOutcome(interrupts=build_interrupts(*interruptions))
    return RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=outcome)


def build_interrupts(*interruptions: InterruptionMetadata) -> list[Interrupt]:
    """Return the undecided calls as AG-UI interrupts."""
    return [_build_interrupt(stopped, call) for stopped in interruptions for call in stopped.undecided]


def build_run_error(error: PlacetError) -> RunErrorEvent:
    """Return the event that ends a run whose resume was refused."""
    return RunErrorEvent(message=error.message, code=error.code)


def read_resume(
    entries: Iterable[ResumeEntry] | None, waiting: Sequence[InterruptionMetadata]
) -> list[InterruptionMetadata]:
    """Return the interruptions with the answers of a client, ready to resume with.

    Raises InvalidFeedback unless the entries answer every interrupt that is open, each once, and no other.
    An abandoned interrupt rejects its call. An answer that is delivered again may repeat decided calls.
    """
    given: dict[str, ResumeEntry] = {}
    for entry in entries or ():
        if entry.interrupt_id in given:
            raise InvalidFeedback(f"Interrupt {entry.interrupt_id} is answered twice; nothing was stored.")
        given[entry.interrupt_id] = entry
    known = {_name_interrupt(stopped, call): call for stopped, call in _list_calls(waiting)}
    if unknown := given.keys() - known.keys():
        raise InvalidFeedback(f"No interrupt {', '.join(sorted(unknown))} is open; nothing was stored.")
    if left := [name for name, call in known.items() if call.result is None and name not in given]:
        raise InvalidFeedback(f"Nothing was stored: resume must also answer {', '.join(left)}.")
    return [_apply_entries(stopped, given) for stopped in waiting]


def _list_calls(
    interruptions: Iterable[InterruptionMetadata],
) -> Iterator[tuple[InterruptionMetadata, ToolFeedback]]:
    return ((stopped, call) for stopped in interruptions for call in stopped.tool_feedbacks)


def _name_interrupt(stopped: InterruptionMetadata, call: ToolFeedback) -> str:
    return f"{stopped.id}:{call.id}"


def _build_interrupt(stopped: InterruptionMetadata, call: ToolFeedback) -> Interrupt:
    case = stopped.case or {}
    expires_at = None if stopped.default == "hold" else stopped.expires_at
    return Interrupt(
        id=_name_interrupt(stopped, call),
        reason=REASON,
        message=call.description or f"May {call.name} run?",
        tool_call_id=call.id,
        response_schema=_build_response_schema(call),
        expires_at=None if expires_at is None else expires_at.isoformat(),
        metadata={
            METADATA_KEY: {
                "name": call.name,
                "arguments": call.arguments,
                "allowedDecisions": list(map(str, call.allowed_decisions)),
                "path": list(call.path),
                "digest": stopped.digest,
                "reviewUrl": case.get("review_url"),
            }
        },
    )


def _build_response_schema(call: ToolFeedback) -> dict[str, Any]:
    """Return the JSON Schema of the payload that answers an interrupt; `editedArgs` says that edits count."""
    allowed, forms = frozenset(call.allowed_decisions), []
    if FeedbackResult.APPROVED in allowed:
        forms.append(_object({"approved": {"const": True}}, "approved"))
    if FeedbackResult.EDITED in allowed:
        described = {"description": "All arguments of the call; they replace the old ones."}
        arguments = {"type": "object", **(call.schema or {}), **described}
        members = {"approved": {"const": True}, "editedArgs": arguments}
        forms.append(_object(members, "approved", "editedArgs"))
    if FeedbackResult.REJECTED in allowed:
        members = {"approved": {"const": False}, "reason": {"type": "string"}}
        forms.append(_object(members, "approved"))
    if FeedbackResult.RESPONDED in allowed:
        answer = {"type": "string", "description": "What the agent reads in place of the tool's result."}
        forms.append(_object({"answer": answer}, "answer"))
    properties = {name: schema for form in forms for name, schema in form["properties"].items()}
    if "approved" in properties:
        properties["approved"] = {"type": "boolean"}
    return {"type": "object", "properties": properties, "additionalProperties": False, "anyOf": forms}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _apply_entries(stopped: InterruptionMetadata, given: Mapping[str, ResumeEntry]) -> InterruptionMetadata:
    answered = stopped
    for call in stopped.tool_feedbacks:
        entry = given.get(_name_interrupt(stopped, call))
        if entry is not None:
            answered = answered.with_feedback(_read_entry(entry, call))
    return answered


def _read_entry(entry: ResumeEntry, call: ToolFeedback) -> ToolFeedback:
    """Return the call as an entry decides it."""
    if entry.status == "cancelled":
        if entry.payload is not None:
            raise _refuse(entry, "a cancelled interrupt has no payload")
        return call.reject()
    match entry.payload:
        case {"approved": True, **rest} if not rest:
            return call.approve()
        case {"approved": True, "editedArgs": Mapping() as arguments, **rest} if not rest:
            return _edit(call, arguments)
        case {"approved": False, **rest} if not rest:
            return call.reject()
        case {"approved": False, "reason": str() as reason, **rest} if not rest:
            return call.reject(reason)
        case {"answer": str() as answer, **rest} if not rest:
            return call.respond(answer)
    raise _refuse(entry, "the payload does not match the interrupt's responseSchema")


def _edit(call: ToolFeedback, arguments: Mapping[str, Any]) -> ToolFeedback:
    if dict(arguments) != call.arguments:
        return call.edit(arguments)
    return call if call.result is FeedbackResult.EDITED else call.approve()


def _refuse(entry: ResumeEntry, problem: str) -> InvalidFeedback:
    return InvalidFeedback(f"Nothing was stored: {entry.interrupt_id}: {problem}.")
