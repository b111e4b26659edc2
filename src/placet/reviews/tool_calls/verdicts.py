"""Validate the decisions about tool calls on the server."""

from collections.abc import Iterable, Mapping
from typing import Any

from placet.errors import BadRequest, InvalidSubmission
from placet.protocol.json_schema import UnusableSchema
from placet.reviews.answer import build_field_error, drop_empty, format_ids, read_text
from placet.reviews.tool_calls.requested_calls import RequestedCall, RequestedCalls
from placet.reviews.tool_calls.schema_violations import find_violations
from placet.text.wording import message

FIELD = "decisions"
MEMBERS = frozenset({"decision", "arguments", "reason", "answer"})
WHOLE = ("approve", "reject")
"""The actions that decide all calls at once."""

CallVerdict = dict[str, Any]
CallVerdicts = dict[str, CallVerdict]


def combine_decisions(words: Iterable[str]) -> str:
    """Return the action for these decisions: approve or reject if all agree, else edit."""
    distinct = set(words)
    return distinct.pop() if distinct in ({"approve"}, {"reject"}) else "edit"


def decide_alike(asked: RequestedCalls, action: str) -> CallVerdicts:
    """Return the same decision for every call."""
    return {call.id: {"decision": action} for call in asked.calls}


def has_edit(given: object) -> bool:
    """Return whether an edit is among decisions that are not checked yet."""
    verdicts = given.values() if isinstance(given, Mapping) else ()
    return any(isinstance(one, Mapping) and one.get("decision") == "edit" for one in verdicts)


def check_decisions(asked: RequestedCalls, action: str, given: object) -> CallVerdicts:
    """Return the decisions to store, in the order of the calls; raise InvalidSubmission."""
    if given is None and action in WHOLE:
        given = decide_alike(asked, action)
    if not isinstance(given, Mapping):
        raise build_field_error(FIELD, message("Send what is decided about each call, by its id."))
    _check_complete(asked, given)
    verdicts = {call.id: _read_verdict(call, given[call.id]) for call in asked.calls}
    comes_to = combine_decisions(verdict["decision"] for verdict in verdicts.values())
    if action != comes_to:
        complaint = message(
            "These decisions come to {action}; send them as that, not as {given}.",
            action=comes_to,
            given=action,
        )
        raise build_field_error(FIELD, complaint, action=comes_to)
    return verdicts


def _check_complete(asked: RequestedCalls, given: Mapping[str, Any]) -> None:
    ids = {call.id for call in asked.calls}
    unknown = [call_id for call_id in given if call_id not in ids]
    if unknown:
        complaint = message("No such call waits here: {names}.", names=format_ids(unknown))
        raise build_field_error(FIELD, complaint, unknown=unknown[:10])
    missing = [call.id for call in asked.calls if call.id not in given]
    if missing:
        raise build_field_error(
            FIELD, message("Not decided yet: {names}.", names=format_ids(missing)), missing=missing[:10]
        )


def _read_verdict(call: RequestedCall, given: object) -> CallVerdict:
    if not isinstance(given, Mapping):
        raise _build_error(call, "Send an object with a decision.")
    word = given.get("decision")
    if word not in call.allowed_decisions:
        allowed = ", ".join(call.allowed_decisions)
        raise _build_error(call, f"decision must be one of {allowed}.")
    unknown = [key for key in given if key not in MEMBERS]
    if unknown:
        raise _build_error(call, f"A decision has unknown members: {format_ids(unknown)}.")
    if given.get("arguments") is not None and word != "edit":
        raise _build_error(call, "Only an edit changes arguments.")
    if given.get("answer") is not None and word != "respond":
        raise _build_error(call, "Only a response carries an answer.")
    return drop_empty(
        decision=word,
        reason=_read_text_member(call, given, "reason"),
        answer=_read_answer(call, given) if word == "respond" else None,
    ) | ({"arguments": _read_arguments(call, given)} if word == "edit" else {})


def _read_answer(call: RequestedCall, given: Mapping[str, Any]) -> str:
    answer = _read_text_member(call, given, "answer")
    if answer is None:
        raise _build_error(call, message("Write what the agent should hear in the tool’s place."))
    return answer


def _read_text_member(call: RequestedCall, given: Mapping[str, Any], name: str) -> str | None:
    try:
        return read_text(given, name)
    except BadRequest as error:
        raise _build_error(call, error.details["fields"][name]) from error


def _read_arguments(call: RequestedCall, given: Mapping[str, Any]) -> dict[str, Any]:
    arguments = given.get("arguments")
    if not isinstance(arguments, Mapping):
        raise _build_error(call, "An edit needs the arguments to run with, as an object.")
    try:
        found = find_violations(call.schema, arguments)
    except UnusableSchema as error:  # it was usable when the case was opened
        raise _build_error(call, "The tool's schema cannot be checked.") from error
    if found:
        first = found[0]
        where = ".".join(str(step) for step in first.path)
        more = f" And {len(found) - 1} more." if len(found) > 1 else ""
        raise _build_error(
            call, first.words, place=f"arguments.{where}" if where else "arguments", names=more
        )
    return dict(arguments)


def _build_error(call: RequestedCall, words: str, place: str = "", names: str = "") -> BadRequest:
    path = f"{FIELD}.{call.id[:100]}{'.' if place else ''}{place[:200]}"
    return InvalidSubmission(f"{path}: {words}{names}", fields={FIELD: words}, path=path)
