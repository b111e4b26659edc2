"""What the tools give back: where a question stands, or how it ended. Nothing is made up."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from placet.agent import Cancelled, Decided, Expired, Outcome, PendingCase
from placet.mcp.showing import Shown

Status = Literal["pending", "opened", "in_progress", "completed", "expired", "cancelled"]
OPEN: Mapping[str, Status] = {"opened": "opened", "in_progress": "in_progress"}
_ENDS: Mapping[str, Status] = {"completed": "completed", "expired": "expired", "cancelled": "cancelled"}


class Question(BaseModel):
    """Where a question to a person stands."""

    status: Status = Field(
        description="pending, opened, in_progress: no decision yet. completed: a person decided, see action."
        " expired: nobody did in time. cancelled: withdrawn, nobody decided."
    )
    case_id: str = Field(description="The question's id, for check_question and withdraw_question.")
    type: str | None = Field(description="Which kind of question it is.")
    prompt: str | None = Field(description="What was asked.")
    action: str | None = Field(description="What the person decided; null unless completed.")
    data: dict[str, Any] | None = Field(description="What came with the decision; null unless completed.")
    verified: bool | None = Field(description="Whether the decision's signature holds; null: there is none.")
    responded_by: dict[str, Any] | None = Field(description="Who decided, as far as the server knows.")
    default_action: str | None = Field(description="If expired: what was announced; nobody chose it.")
    reason: str | None = Field(description="If cancelled: why, if that was said.")
    review_url: str | None = Field(description="The person's link: pass it on unchanged, never open it.")
    expires_at: str | None = Field(description="Until when it can be answered.")
    next_step: str = Field(description="What to do now.")


class QuestionList(BaseModel):
    """The questions whose answers have not been read."""

    questions: list[Question]
    more: int = Field(description="How many further ones there are.")
    recent: list[Question] = Field(description="The last ones whose end was handed to you, newest first.")


def ended(pending: PendingCase, outcome: Outcome) -> Question:
    """How a question ended; a decision whose signature does not hold is withheld."""
    decided = outcome if isinstance(outcome, Decided) else None
    broken = decided is not None and decided.verified is False
    return Question(
        status=_ENDS[outcome.status],
        case_id=outcome.case_id,
        type=pending.case.type or None,
        prompt=pending.case.prompt or None,
        action=decided.action if decided and not broken else None,
        data=decided.data if decided and not broken else None,
        verified=decided.verified if decided else None,
        responded_by=decided.responded_by if decided and not broken else None,
        default_action=outcome.default_action if isinstance(outcome, Expired) else None,
        reason=outcome.reason if isinstance(outcome, Cancelled) else None,
        review_url=None,
        expires_at=None,
        next_step=_after(outcome),
    )


def still_open(pending: PendingCase, status: str | None, *, shown: Shown, with_link: bool) -> Question:
    """A question without an answer yet; the link is in it only for clients that cannot show it themselves."""
    case = pending.case
    link = case.review_url if with_link and case.prompt else None
    return Question(
        status=OPEN.get(status or "", "pending"),
        case_id=case.case_id,
        type=case.type or None,
        prompt=case.prompt or None,
        action=None,
        data=None,
        verified=None,
        responded_by=None,
        default_action=None,
        reason=None,
        review_url=link,
        expires_at=case.expires_at.isoformat() if case.prompt else None,
        next_step=_meanwhile(case.case_id, shown, link is not None),
    )


def listed(pending: PendingCase, status: str | None, *, with_link: bool) -> Question:
    """A question in the list: one that has ended is still to be read."""
    question = still_open(pending, status, shown=None, with_link=with_link)
    if status not in _ENDS:
        return question
    read = f"It has ended. Call check_question with case_id {pending.case.case_id} to read how."
    return question.model_copy(update={"status": status, "review_url": None, "next_step": read})


def result(answer: Question | QuestionList) -> CallToolResult:
    """As a tool's result: structured, and the same as text for clients that read only that."""
    plain = answer.model_dump(mode="json")
    broken = isinstance(answer, Question) and answer.verified is False
    text = msgspec.json.encode(plain).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=plain, is_error=broken
    )


def _after(outcome: Outcome) -> str:
    if isinstance(outcome, Expired):
        return (
            "Nobody answered in time, so nothing was decided or approved. Do not do what you asked about;"
            f" do what you announced for this case ({outcome.default_action}), and tell the user."
        )
    if isinstance(outcome, Cancelled):
        return "The question was withdrawn and nobody decided. Do not do what you asked about."
    if outcome.verified is False:
        return "The signature of this decision does not hold. Do not act on it; tell the user."
    return _DECIDED.get(outcome.action, "Act on this action and its data, and on nothing else.")


_AGAINST = "The person said no. Do not do it, and do not ask the same again; data may say why."
_DECIDED = {
    "approve": "Approved exactly as it was shown. Do that and nothing more.",
    "edit": "Not approved yet. Make the changes in data, then ask again with this as previous_case_id.",
    "reject": _AGAINST,
    "select": "Go on with the options in data.selected, and with no others.",
    "submit": "Use the answers in data.",
    "confirm": "Confirmed. If data has confirmed_items, do it for those only.",
    "cancel": _AGAINST,
    "retry": "Try again, with data.modified_params where there are any.",
    "skip": "Leave this step out and go on.",
    "abort": "Stop the task, and do not retry.",
}


def _meanwhile(case_id: str, shown: Shown, with_link: bool) -> str:
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
