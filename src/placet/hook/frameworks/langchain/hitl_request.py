"""LangChain's own review request and the decisions that answer it, as agent-chat-ui and agent-inbox use them.

Their decisions name no calls: each belongs to the action request at its position. So they count only while
it is certain which calls the person saw.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from placet.errors import InvalidFeedback
from placet.hook.answer_validation import Feedback
from placet.hook.feedback import FeedbackResult, ToolFeedback
from placet.hook.interruption import InterruptionMetadata
from placet.hook.tool_call import ToolCall

REQUEST_MEMBERS = ("action_requests", "review_configs", "type", "tool_call_id", "name", "args", "description")
"""What `build_hitl_request` and `build_tool_approval` add to an interrupt."""
OTHER_CALLS = (
    "These are not the calls that were asked about first. Send the interrupt's `digest` beside the decisions,"
    " or decide by call id; nothing was stored."
)
DIFFERENT_DIGEST = "These decisions belong to another interruption; nothing was stored."


class ShownCalls(NamedTuple):
    """What waits, and whether it is certainly what every client was shown."""

    interruption: InterruptionMetadata
    is_first_question: bool


def build_hitl_request(interruption: InterruptionMetadata) -> dict[str, Any]:
    """Return the undecided calls as LangChain's HITLRequest; agent-inbox reads `arguments`, others `args`."""
    return {
        "action_requests": [
            {
                "name": call.name,
                "args": call.arguments,
                "arguments": call.arguments,
                "description": call.description,
                "tool_call_id": call.id,
            }
            for call in interruption.undecided
        ],
        "review_configs": [
            {"action_name": call.name, "allowed_decisions": list(map(str, call.allowed_decisions))}
            for call in interruption.undecided
        ],
    }


def build_tool_approval(call: ToolFeedback) -> dict[str, Any]:
    """Return a call as LangChain's ToolApprovalRequest."""
    return {
        "type": "tool_approval",
        "tool_call_id": call.id,
        "name": call.name,
        "args": call.arguments,
        "description": call.description,
    }


def is_first_question(
    interruption: InterruptionMetadata, asked: Sequence[ToolCall], *, may_grow: bool
) -> bool:
    """Return whether the waiting calls are those that the model requested, and no question came before.

    An edit into another gated tool, and a grant that ends (`may_grow`), ask a second question. A client that
    still shows the first one must not answer the second.
    """
    changed = any(each.call not in asked for each in interruption.undecided)
    is_partial = len(interruption.undecided) < len(interruption.tool_feedbacks)
    return not (changed or (may_grow and is_partial))


def read_hitl_response(answer: Any, find_shown: Callable[[], ShownCalls]) -> Feedback | None:
    """Return the answered interruption; None if the answer is not in LangChain's form.

    Understands `{"decisions": [...]}`, a single decision, and the list that agent-inbox sends.
    """
    if isinstance(answer, Mapping) and isinstance(answer.get("decisions"), list):
        decisions, digest = answer["decisions"], answer.get("digest")
        if unknown := answer.keys() - {"decisions", "digest"}:
            raise InvalidFeedback(f"An answer has no member {', '.join(sorted(map(str, unknown)))}.")
        return _apply_decisions(decisions, find_shown(), digest=digest)
    if isinstance(answer, list):
        return _apply_decisions(answer, find_shown(), is_one_by_one=True)
    if isinstance(answer, Mapping) and isinstance(answer.get("type"), str):
        shown = find_shown()
        if all(each.id != "type" for each in shown.interruption.tool_feedbacks):
            return _apply_decisions([answer], shown)
    return None


def _apply_decisions(
    decisions: Sequence[Any], shown: ShownCalls, *, digest: Any = None, is_one_by_one: bool = False
) -> InterruptionMetadata:
    """Return the interruption with these decisions, in the order of its undecided calls."""
    answered, waiting = shown.interruption, shown.interruption.undecided
    if digest is not None and digest != answered.digest:
        raise InvalidFeedback(DIFFERENT_DIGEST)
    if digest is None and not shown.is_first_question:
        raise InvalidFeedback(OTHER_CALLS)
    takes_next = is_one_by_one and len(decisions) == 1 and bool(waiting)
    if len(decisions) != len(waiting) and not takes_next:
        raise InvalidFeedback(
            f"Nothing was stored: there are {len(decisions)} decisions, and {len(waiting)} calls wait."
        )
    # A client that shows one call after the other may still show one that was decided meanwhile.
    must_show_call = is_one_by_one and len(waiting) < len(answered.tool_feedbacks)
    for said, call in zip(decisions, waiting, strict=not takes_next):
        answered = _read_decision(said, call, must_show_call=must_show_call)(answered)
    return answered


def _read_decision(
    said: Any, call: ToolFeedback, *, must_show_call: bool
) -> Callable[[InterruptionMetadata], InterruptionMetadata]:
    """Return what applies a decision to the interruption.

    `must_show_call`: only a rejection counts, or an acceptance that repeats the call.
    """
    kind = said.get("type") if isinstance(said, Mapping) else None
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise _refuse(call, f"{said!r:.200} is not a decision: its type must be one of {', '.join(_MEMBERS)}")
    if unknown := said.keys() - _MEMBERS[kind] - {"type", "tool_call_id"}:
        raise _refuse(call, f"a decision to {kind} has no member {', '.join(sorted(map(str, unknown)))}")
    if said.get("tool_call_id", call.id) != call.id:
        raise _refuse(call, "the decision at this position is about another call")
    text = said.get("message", said.get("args"))
    match kind:
        case "approve":
            return partial(InterruptionMetadata.approve, call_id=call.id)
        case "accept":
            if (text is not None or must_show_call) and _read_action(text, call) != (
                call.name,
                call.arguments,
            ):
                raise _refuse(call, "the accepted call is another one")
            return partial(InterruptionMetadata.approve, call_id=call.id)
        case "edit":
            name, arguments = _read_action(said.get("edited_action", said.get("args")), call)
            if (name, arguments) == (call.name, call.arguments):
                return partial(InterruptionMetadata.approve, call_id=call.id)
            if must_show_call:
                raise _refuse(call, "another call was decided meanwhile; decide this one by its id")
            return partial(InterruptionMetadata.edit, call_id=call.id, arguments=arguments, name=name)
        case "respond":
            return partial(InterruptionMetadata.respond, call_id=call.id, answer=text)
    return partial(InterruptionMetadata.reject, call_id=call.id, reason=None if text == "" else text)


def _read_action(action: Any, call: ToolFeedback) -> tuple[str, Mapping[str, Any]]:
    """Return the tool and the arguments of LangChain's Action, or of agent-inbox's ActionRequest."""
    match action:
        case {"name": str() as name, "args": Mapping() as arguments, **rest} if not rest:
            return name, dict(arguments)
        case {"action": str() as name, "args": Mapping() as arguments, **rest} if not rest:
            return name, dict(arguments)
    raise _refuse(call, "the decision needs the name and the args of the call")


def _refuse(call: ToolFeedback, problem: str) -> InvalidFeedback:
    return InvalidFeedback(f"Nothing was stored: {call.name} ({call.id}): {problem}.")


_MEMBERS: Mapping[str, frozenset[str]] = {
    FeedbackResult.APPROVED.value: frozenset(),
    FeedbackResult.EDITED.value: frozenset({"edited_action", "args"}),
    FeedbackResult.REJECTED.value: frozenset({"message"}),
    FeedbackResult.RESPONDED.value: frozenset({"message"}),
    "accept": frozenset({"args"}),
    "response": frozenset({"args"}),
    "ignore": frozenset({"args"}),
}
"""The type of a decision -> its members; the last three are agent-inbox's, which rejects by a response."""
