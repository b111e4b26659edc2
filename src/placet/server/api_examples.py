"""Examples that the API description shares; they are made from the structs, so they stay correct."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from placet.cases.tokens import TOKEN_LENGTH
from placet.desk.case_urls import CaseUrls
from placet.protocol.hitl_object import HitlObject, HumanInputRequired
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest, SubmittedBy
from placet.protocol.poll import PollResponse, Result, SubmissionContext
from placet.protocol.review_callback import ReviewCallback
from placet.reviews.registry import REVIEW_TYPES

CASE = "review_5f0c1a9e7b3d4c2f8a6e1d0b9c8f7a6e"
BASE = "https://placet.example"
RECEIVER = "https://agent.example/hooks/decisions"
ASKED_AT = datetime(2026, 5, 6, 9, 0, tzinfo=UTC)
ANSWERED_AT = datetime(2026, 5, 6, 9, 12, 30, tzinfo=UTC)
ENDS_AT = datetime(2026, 5, 6, 13, 0, tzinfo=UTC)


def _build_token(purpose: str) -> str:
    return f"an-example-of-a-{purpose}-token".ljust(TOKEN_LENGTH, "0")


_TYPE = next(iter(REVIEW_TYPES.values()))
_OPENING = _TYPE.example()
RESULT = Result(action="approve", data={"feedback": "Kind and clear."})
_PRESSED_BY = SubmittedBy(platform="telegram", platform_user_id="481516", display_name="Mara")
_LINKS = CaseUrls(BASE).build_links(
    CASE, review_token=_build_token("review"), submit_token=_build_token("submit")
)

_HITL = HitlObject(
    spec_version="0.9",
    case_id=CASE,
    review_url=_LINKS.review_url,
    poll_url=_LINKS.poll_url,
    events_url=_LINKS.events_url,
    callback_url=None,
    type=_TYPE.name,
    prompt=_OPENING["prompt"],
    timeout="4h",
    default_action="reject",
    created_at=ASKED_AT,
    expires_at=ENDS_AT,
    submit_url=_LINKS.submit_url,
    submit_token=_LINKS.submit_token,
    inline_actions=_TYPE.inline_actions,
)
PENDING = PollResponse(status="pending", case_id=CASE, created_at=ASKED_AT, expires_at=ENDS_AT)
_COMPLETED = PollResponse(
    status="completed",
    case_id=CASE,
    created_at=ASKED_AT,
    expires_at=ENDS_AT,
    completed_at=ANSWERED_AT,
    result=RESULT,
    submission_context=SubmissionContext(
        mode="inline_submit", submitted_via="telegram_inline_button", submitted_by=_PRESSED_BY
    ),
)
_EXPIRED = PollResponse(
    status="expired", case_id=CASE, created_at=ASKED_AT, expired_at=ENDS_AT, default_action="reject"
)
_CANCELLED = PollResponse(
    status="cancelled", case_id=CASE, created_at=ASKED_AT, cancelled_at=ANSWERED_AT, reason="Sent by phone."
)


def as_examples(**examples: Any) -> Mapping[str, Any]:
    """Return structs as the JSON that travels, by name."""
    return {name: msgspec.json.decode(msgspec.json.encode(value)) for name, value in examples.items()}


DRAFTS = {name: kind.example() for name, kind in REVIEW_TYPES.items()}
OPENED = as_examples(
    opened=HumanInputRequired(
        message=_OPENING["message"], data={"service": {"name": "Example Desk"}}, hitl=_HITL
    )
)
POLLS = as_examples(pending=PENDING, completed=_COMPLETED, expired=_EXPIRED, cancelled=_CANCELLED)
ANSWERED = as_examples(completed=_COMPLETED)
WITHDRAWN = as_examples(withdrawn=_CANCELLED)
SUBMISSION = as_examples(
    pressed=SubmitRequest(action="approve", submitted_via="telegram_inline_button", submitted_by=_PRESSED_BY)
)
RECEIPT = as_examples(taken=SubmitReceipt(status="completed", case_id=CASE, completed_at=ANSWERED_AT))
CALLBACK = as_examples(
    completed=ReviewCallback(
        event="review.completed",
        status="completed",
        timestamp=ANSWERED_AT,
        case_id=CASE,
        completed_at=ANSWERED_AT,
        result=RESULT,
    )
)
