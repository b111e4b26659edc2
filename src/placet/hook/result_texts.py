"""The texts that the model reads about calls that did not simply run."""

import json
from datetime import timedelta
from typing import Any

from placet.cases.execution_outcomes import NotRunReason
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.tool_call import ToolCall

OUTCOME_UNKNOWN = (
    "This call was started, and how it ended is not recorded. Whether it took effect is unknown, and it was"
    " not run again. Check before you repeat it."
)
NOT_DECIDED_IN_TIME = "Nobody decided in time."
REVIEW_WITHDRAWN = "The review was withdrawn."
CANCELLED_BY_MESSAGE = "This call was not run: the person wrote something else instead of deciding it."


def describe_refusal(verdict: Verdict) -> str | None:
    """Return what the model reads instead of the tool's result, or None if the call is to run."""
    if verdict.decision is FeedbackResult.RESPONDED:
        return verdict.answer or ""
    if verdict.decision is not FeedbackResult.REJECTED:
        return None
    if verdict.not_run is NotRunReason.SUPERSEDED:
        return verdict.reason or CANCELLED_BY_MESSAGE
    if verdict.not_run is not None:
        return f"This call was not run. {verdict.reason or NOT_DECIDED_IN_TIME}"
    if verdict.reason:
        return f"A person rejected this call. Their reason: {verdict.reason}"
    return "A person rejected this call and gave no reason. Do not repeat it unchanged."


def get_refusal(feedback: ToolFeedback) -> str | None:
    """Return what the model reads instead of the tool's result; None if the call is undecided or runs."""
    verdict = feedback.verdict
    return None if verdict is None else describe_refusal(verdict)


def apply_verdict(call: ToolCall, verdict: Verdict | None) -> ToolCall:
    """Return the call as it is to run: edited, if the reviewer edited it."""
    if verdict is None or verdict.decision is not FeedbackResult.EDITED or verdict.arguments is None:
        return call
    return ToolCall(id=call.id, name=verdict.name or call.name, arguments=verdict.arguments)


def describe_result(asked: ToolCall, ran: ToolCall, result: str) -> str:
    """Return the result as the model reads it: an edit is disclosed."""
    if asked is ran or asked == ran:
        return result
    arguments = json.dumps(ran.arguments, ensure_ascii=False, default=str)
    said = (
        f"A person changed this call before it ran; it ran as {ran.name}({arguments}). Its result: {result}"
    )
    return FailedResult(said) if isinstance(result, FailedResult) else said


class FailedResult(str):
    """The text of a call that failed, or whose end is not known; the call is recorded as failed."""

    __slots__ = ()


def describe_failure(error: Exception) -> FailedResult:
    """Return what the model reads about a tool that raised."""
    return FailedResult(f"The tool failed: {format_error(error)}")


def format_error(error: Exception) -> str:
    """Return an error's type and message."""
    return f"{type(error).__name__}: {_str_or_type_name(error)}"


def describe_timeout(limit: timedelta) -> FailedResult:
    """Return what the model reads about a tool that timed out."""
    return FailedResult(
        f"The tool did not finish within {limit.total_seconds():g} seconds."
        " Whether it took effect is unknown, and it was not run again."
    )


def to_text(result: Any) -> str:
    """Return a tool's result as message text."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except Exception:  # the tool has run: a result that cannot be encoded is not a failure
        return _str_or_type_name(result)


def _str_or_type_name(result: Any) -> str:
    try:
        return str(result)
    except Exception:
        return f"({type(result).__name__})"
