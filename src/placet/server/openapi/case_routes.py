"""Routes that open, follow, answer and withdraw cases."""

from typing import Annotated, Any

from msgspec import Meta

from placet.desk.draft import CaseDraft, CaseId
from placet.desk.opening import NEVER_APPROVED_BY_DEFAULT
from placet.desk.replays import MAX_KEY_LENGTH
from placet.errors import (
    ActionNotInline,
    AlreadyClosed,
    CaseExpired,
    CaseNotFound,
    InvalidAction,
    InvalidForm,
    InvalidInput,
    InvalidSelection,
    InvalidSubmission,
    InvalidToken,
    RateLimited,
    ValidationFailed,
    VerificationFailed,
    VerificationRequired,
)
from placet.protocol.hitl_object import HumanInputRequired
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest
from placet.protocol.poll import PollResponse, Status
from placet.server.case_api import CancelRequest, CaseList
from placet.server.openapi import examples
from placet.server.openapi.models import StreamedEvent
from placet.server.openapi.route import (
    BODY_ERRORS,
    KEY_ERRORS,
    LIMIT,
    STORE_ERRORS,
    Body,
    Parameter,
    Reply,
    Route,
)

CASES, ANSWERS = "Cases", "Answers"
CASE_ID = Parameter(name="case_id", where="path", type=CaseId, about="The case's id, from the 202.")
IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    where="header",
    type=Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH, pattern="^[ -~]+$")],
    about="A name for this request, chosen by you. Sent again, it gets the first answer again.",
)

# What the draft's struct cannot say, and the desk refuses all the same.
_DRAFT_RULES: tuple[dict[str, Any], ...] = (
    {
        "if": {"properties": {"type": {"pattern": "^x-"}}, "required": ["type"]},
        "then": {"properties": {"actions": {"type": "array"}}, "required": ["actions"]},
        "else": {"properties": {"actions": {"type": "null"}}},
    },
    {
        "if": {"properties": {"default_action": {"const": "approve"}}, "required": ["default_action"]},
        "then": {
            "properties": {
                "allow_default_approve": {"const": True},
                "type": {"not": {"enum": sorted(NEVER_APPROVED_BY_DEFAULT)}},
            },
            "required": ["allow_default_approve"],
        },
    },
)

_OPEN = Route(
    method="post",
    path="/v1/cases",
    name="openCase",
    tag=CASES,
    summary="Put a question before a person",
    about=(
        "Opens a case. Give `hitl.review_url` to the person; it is their key to the page. Keep "
        "`hitl.poll_url` to learn the answer. Tokens are in this answer only: they cannot be read again."
    ),
    parameters=(IDEMPOTENCY_KEY,),
    body=Body(
        model=CaseDraft,
        about="The question. What `context` holds depends on `type`; see the examples.",
        examples=examples.DRAFTS,
        rules=_DRAFT_RULES,
    ),
    replies=(
        Reply(
            status=202,
            about="The case is open and waits for the person.",
            model=HumanInputRequired,
            headers=("Retry-After",),
            examples=examples.OPENED,
        ),
    ),
    errors=(*BODY_ERRORS, InvalidForm, *KEY_ERRORS),
)

_LIST = Route(
    method="get",
    path="/v1/reviews",
    name="listCases",
    tag=CASES,
    summary="List your cases",
    about="Newest first. Good for catching up after callbacks were lost.",
    parameters=(
        Parameter(name="status", where="query", type=Status, about="Only cases in this state."),
        Parameter(name="before", where="query", type=CaseId, about="The `next` of the page before."),
        LIMIT,
        Parameter(
            name="chain",
            where="query",
            type=CaseId,
            about="Instead: all rounds of the chain that this case belongs to, oldest first.",
        ),
    ),
    replies=(Reply(status=200, about="A page of cases.", model=CaseList, examples=examples.LISTED),),
    errors=(ValidationFailed, CaseNotFound, *KEY_ERRORS),
)

_POLL = Route(
    method="get",
    path="/v1/reviews/{case_id}/status",
    name="pollCase",
    tag=CASES,
    summary="Where does a case stand?",
    about=(
        "Ask as often as `Retry-After` says. Send the last `ETag` as `If-None-Match`, and an unchanged case "
        "costs you nothing: a 304 does not count against the limit, nor does a case that has ended."
    ),
    credential="apiKeyOrNone",
    parameters=(
        CASE_ID,
        Parameter(name="If-None-Match", where="header", type=str, about="The `ETag` you have seen."),
    ),
    replies=(
        Reply(
            status=200,
            about="The state. `result` is there once `status` is `completed`.",
            model=PollResponse,
            headers=("ETag",),
            some_headers=("Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining"),
            examples=examples.POLLS,
        ),
        Reply(
            status=304,
            about="Nothing new since that ETag.",
            headers=("ETag",),
            some_headers=("Retry-After",),
        ),
    ),
    errors=(InvalidToken, CaseNotFound, RateLimited, *STORE_ERRORS),
)

_EVENTS = Route(
    method="get",
    path="/v1/reviews/{case_id}/events",
    name="followCase",
    tag=CASES,
    summary="Be told the moment something happens",
    about=(
        "Server-sent events: `review.opened`, `review.in_progress`, `review.reminder` and one of "
        "`review.completed`, `review.expired` and `review.cancelled`, after which the stream ends. Come back "
        "with `Last-Event-ID` and you get what you missed. Once your key is over or revoked, the stream ends "
        "without another word."
    ),
    credential="apiKeyOrNone",
    parameters=(
        CASE_ID,
        Parameter(name="Last-Event-ID", where="header", type=str, about="The `id` of the last event seen."),
    ),
    replies=(
        Reply(
            status=200,
            about="Events as they happen, each of this shape; comments in between keep the line open.",
            model=StreamedEvent,
            media="text/event-stream",
            examples=examples.EVENTS,
        ),
    ),
    errors=(InvalidToken, CaseNotFound, *STORE_ERRORS),
)


def _answering(verb: str, name: str, summary: str) -> Route:
    return Route(
        method="post",
        path=f"/v1/reviews/{{case_id}}/{verb}",
        name=name,
        tag=ANSWERS,
        summary=summary,
        about=(
            "Only after a person pressed a button for it, and only with the case's `submit_token`. The first "
            "answer stands; every later one gets 409. After a 403, send the person to the review link."
        ),
        credential="submitToken",
        parameters=(CASE_ID, IDEMPOTENCY_KEY),
        body=Body(
            model=SubmitRequest, about="What was pressed, where, and by whom.", examples=examples.SUBMISSION
        ),
        replies=(
            Reply(status=200, about="This answer counts.", model=SubmitReceipt, examples=examples.RECEIPT),
        ),
        errors=(
            *BODY_ERRORS,
            InvalidSubmission,
            InvalidAction,
            InvalidSelection,
            InvalidInput,
            InvalidToken,
            ActionNotInline,
            VerificationRequired,
            VerificationFailed,
            CaseNotFound,
            AlreadyClosed,
            CaseExpired,
            *STORE_ERRORS,
        ),
    )


_CANCEL = Route(
    method="post",
    path="/v1/reviews/{case_id}/cancel",
    name="cancelCase",
    tag=CASES,
    summary="Withdraw a question",
    about="The person can no longer answer, and is told that it was withdrawn.",
    parameters=(CASE_ID,),
    body=Body(
        model=CancelRequest, about="Why, if you want to say.", examples=examples.REASON, required=False
    ),
    replies=(Reply(status=200, about="It is withdrawn.", model=PollResponse, examples=examples.WITHDRAWN),),
    errors=(*BODY_ERRORS, CaseNotFound, AlreadyClosed, CaseExpired, *KEY_ERRORS),
)

CASE_ROUTES: tuple[Route, ...] = (
    _OPEN,
    _LIST,
    _POLL,
    _EVENTS,
    _CANCEL,
    _answering("respond", "respond", "Answer a case inline"),
    _answering("submit", "submit", "Answer a case inline, by its other name"),
)
