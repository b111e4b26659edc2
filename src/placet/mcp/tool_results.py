"""The results of the tools: the status of a question, or how it ended."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from placet.agent import Cancelled, Decided, Expired, Outcome, PendingCase
from placet.mcp.link_elicitation import LinkResponse
from placet.reviews.registry import find_action

QuestionStatus = Literal["pending", "opened", "in_progress", "completed", "expired", "cancelled"]
OPEN: Mapping[str, QuestionStatus] = {"opened": "opened", "in_progress": "in_progress"}
_ENDS: Mapping[str, QuestionStatus] = {
    "completed": "completed",
    "expired": "expired",
    "cancelled": "cancelled",
}


class QuestionResult(BaseModel):
    """The status of a question to a person."""

    status: QuestionStatus = Field(
        description="pending, opened, in_progress: no decision yet. completed: a person decided, see action."
        " expired: nobody did in time. cancelled: withdrawn, nobody decided."
    )
    case_id: str = Field(description="The question's id, for check_question and withdraw_question.")
    type: str | None = Field(description="Which kind of question it is.")
    prompt: str | None = Field(description="What was asked.")
    action: str | None = Field(description="What the person decided; null unless completed.")
    is_affirmative: bool | None = Field(description="Whether action is a yes; null unless completed.")
    data: dict[str, Any] | None = Field(description="What came with the decision; null unless completed.")
    verified: bool | None = Field(
        description="Whether the decision's signature is valid; null if there is none."
    )
    responded_by: dict[str, Any] | None = Field(description="Who decided, as far as the server knows.")
    default_action: str | None = Field(description="If expired: what was announced; nobody chose it.")
    reason: str | None = Field(description="If cancelled: why, if that was said.")
    review_url: str | None = Field(description="The person's link: pass it on unchanged, never open it.")
    expires_at: str | None = Field(description="Until when it can be answered.")
    next_step: str = Field(description="What to do now.")


class QuestionList(BaseModel):
    """The questions whose answers have not been read."""

    questions: list[QuestionResult]
    more: int = Field(description="How many more questions there are.")
    recent: list[QuestionResult] = Field(
        description="The questions whose outcome you received last, newest first."
    )


def describe_outcome(pending: PendingCase, outcome: Outcome) -> QuestionResult:
    """Return how a question ended; withhold a decision whose signature is not valid."""
    decided = outcome if isinstance(outcome, Decided) else None
    broken = decided is not None and decided.verified is False
    return QuestionResult(
        status=_ENDS[outcome.status],
        case_id=outcome.case_id,
        type=pending.case.type or None,
        prompt=pending.case.prompt or None,
        action=decided.action if decided and not broken else None,
        is_affirmative=decided.is_affirmative if decided and not broken else None,
        data=decided.data if decided and not broken else None,
        verified=decided.verified if decided else None,
        responded_by=decided.responded_by if decided and not broken else None,
        default_action=outcome.default_action if isinstance(outcome, Expired) else None,
        reason=outcome.reason if isinstance(outcome, Cancelled) else None,
        review_url=None,
        expires_at=None,
        next_step=_describe_next_step_after(outcome),
    )


def describe_open_question(
    pending: PendingCase, status: str | None, *, shown: LinkResponse, with_link: bool
) -> QuestionResult:
    """Return a question without an answer yet; include the link only if the client cannot show it."""
    case = pending.case
    link = case.review_url if with_link and case.prompt else None
    return QuestionResult(
        status=OPEN.get(status or "", "pending"),
        case_id=case.case_id,
        type=case.type or None,
        prompt=case.prompt or None,
        action=None,
        is_affirmative=None,
        data=None,
        verified=None,
        responded_by=None,
        default_action=None,
        reason=None,
        review_url=link,
        expires_at=case.expires_at.isoformat() if case.prompt else None,
        next_step=_describe_next_step_while_open(case.case_id, shown, link is not None),
    )


def summarize_question(pending: PendingCase, status: str | None, *, with_link: bool) -> QuestionResult:
    """Return a question for the list; a result that has not been read is not included."""
    question = describe_open_question(pending, status, shown=None, with_link=with_link)
    if status not in _ENDS:
        return question
    read = f"It has ended. Call check_question with case_id {pending.case.case_id} to read how."
    return question.model_copy(update={"status": status, "review_url": None, "next_step": read})


def build_tool_result(answer: QuestionResult | QuestionList) -> CallToolResult:
    """Return a tool result: structured, and as text for clients that read only text."""
    plain = answer.model_dump(mode="json")
    broken = isinstance(answer, QuestionResult) and answer.verified is False
    text = msgspec.json.encode(plain).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=plain, is_error=broken
    )


def _describe_next_step_after(outcome: Outcome) -> str:
    if isinstance(outcome, Expired):
        return (
            "Nobody answered in time, so nothing was decided or approved. Do not do what you asked about;"
            f" do what you announced for this case ({outcome.default_action}), and tell the user."
        )
    if isinstance(outcome, Cancelled):
        return "The question was withdrawn and nobody decided. Do not do what you asked about."
    if outcome.verified is False:
        return "The signature of this decision is invalid. Do not act on it; tell the user."
    declared = find_action(outcome.action)
    if declared is not None and declared.is_affirmative == outcome.is_affirmative:
        return declared.guidance
    if outcome.is_affirmative:
        return "Act on this action and its data, and on nothing else."
    return "This answer is not a yes. Do not do what you asked about; tell the user what was answered."


def _describe_next_step_while_open(case_id: str, shown: LinkResponse, with_link: bool) -> str:
    check = f"call check_question with case_id {case_id}"
    if shown == "decline" or shown == "cancel":
        return (
            "The person did not open the link. That is no answer; the question stays open. Ask how to go on;"
            f" to offer the link again, {check} and show_link true, or end it with withdraw_question."
        )
    if with_link:
        return (
            "Give review_url to the person, unchanged, and say what it is about. It is theirs: never open,"
            f" fetch or shorten it. Then {check} to learn the decision. Until then nothing is decided."
        )
    return f"The person was asked and has not decided. Do other work, then {check}. Nothing is decided yet."
