"""The cases API: open, list, follow, answer inline and withdraw cases (ruling 15)."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from placet.cases.call_receipt import MAX_RECEIPTS, CallReceipt
from placet.cases.case import Case
from placet.cases.case_reader import CaseReader
from placet.cases.execution_outcomes import ExecutionOutcome
from placet.cases.wire import build_poll_response
from placet.desk import idempotency
from placet.desk.access import require_scope
from placet.desk.draft import CaseDraft, CaseId
from placet.desk.idempotency import MAX_KEY_LENGTH
from placet.desk.review_desk import ReviewDesk
from placet.errors import (
    ActionNotInline,
    AlreadyClosed,
    BadRequest,
    CaseExpired,
    CaseNotFound,
    CaseStillOpen,
    InvalidAction,
    InvalidForm,
    InvalidInput,
    InvalidSelection,
    InvalidSubmission,
    InvalidToken,
    KeyEnded,
    RateLimited,
    VerificationFailed,
    VerificationRequired,
)
from placet.http.asgi import (
    RawReply,
    Receive,
    Scope,
    Send,
    build_json_reply,
    read_bearer_token,
    read_body,
    read_text_header,
)
from placet.http.client_operations import (
    ANSWER_CASE,
    CANCEL_CASE,
    FOLLOW_CASE,
    LIST_CASES,
    OPEN_CASE,
    POLL_CASE,
    REPORT_CALLS,
    RESPOND,
)
from placet.http.decoding import decode
from placet.http.paging import PageLimit
from placet.http.route import (
    ApiRequest,
    HttpApi,
    OperationAddress,
    Parameter,
    RequestBody,
    Route,
    RouteGroup,
    RouteOptions,
    RouteReply,
)
from placet.http.routing import Authenticate
from placet.ports.identity import CASES_ANSWER, CASES_READ, Principal
from placet.protocol.event_data import EventData
from placet.protocol.hitl_object import HumanInputRequired
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest
from placet.protocol.poll import PollResponse, RespondedBy, Status
from placet.reviews.registry import DECLARATIONS, REVIEW_TYPES, list_types_requiring_answer
from placet.server import api_examples as examples
from placet.server.polling import StatusPoll, require_reading
from placet.server.signed_requests import is_signed_with, read_signed_request
from placet.server.streams import EventStreams
from placet.text.characters import is_one_line, is_storable

READER = Principal(name=None, scopes=frozenset({CASES_READ}))
"""The agent that called a service, known to Placet only by the digest of its credential."""
POLL_AGAIN = (b"retry-after", b"2")
CASE_ID = Parameter(name="case_id", location="path", type=CaseId, description="The case's id, from the 202.")
IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    location="header",
    type=Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH, pattern="^[ -~]+$")],
    description="A name for this request, chosen by you. A repeated request gets the first response again.",
)

_REGISTERED = [name for name in REVIEW_TYPES if name.startswith("x-")]
_UNREGISTERED = {"pattern": "^x-", **({"not": {"enum": _REGISTERED}} if _REGISTERED else {})}

_TAKES_CUSTOM_ACTIONS = [name for name in REVIEW_TYPES if DECLARATIONS[name].takes_custom_actions]
_NONE = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}

# Rules of the desk that the draft's struct cannot express.
_DRAFT_RULES: tuple[dict[str, Any], ...] = (
    {
        "if": {"properties": {"type": _UNREGISTERED}, "required": ["type"]},
        "then": {"properties": {"actions": {"type": "array"}}, "required": ["actions"]},
        "else": {
            "if": {"properties": {"type": {"enum": _TAKES_CUSTOM_ACTIONS}}, "required": ["type"]},
            "else": {"properties": {"actions": {"type": "null"}, "affirmative_actions": _NONE}},
        },
    },
    {
        "if": {"properties": {"default_action": {"const": "approve"}}, "required": ["default_action"]},
        "then": {
            "properties": {
                "allow_default_approve": {"const": True},
                "type": {"not": {"enum": list_types_requiring_answer()}},
            },
            "required": ["allow_default_approve"],
        },
    },
)

cases = RouteGroup(
    tag="Cases",
    description="Ask a person and get their decision.",
    read="cases:read",
    write="cases:write",
)
own_pages = RouteGroup(
    tag="Own pages",
    description="Answer for a person who decided on a page of your service.",
    read=CASES_ANSWER,
    write=CASES_ANSWER,
)
answers = RouteGroup(
    tag="Answers",
    description="Answer for a person who pressed a button in a messenger.",
    credential="submitToken",
    handling="raw",
)


class AnsweringPerson(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who answered on the service's own page."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    email: Annotated[str, Meta(min_length=1, max_length=320)] | None = None


class AnswerRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person answered on the service's own page."""

    action: Annotated[str, Meta(max_length=64)]
    data: dict[str, Any] = {}
    responded_by: Annotated[
        AnsweringPerson | None, Meta(description="The person, if you have verified who it is.")
    ] = None

    @property
    def person(self) -> RespondedBy | None:
        """Who answered. Raises InvalidSubmission for a name that cannot be shown on one line."""
        said = self.responded_by or AnsweringPerson()
        texts = [text for text in (said.name, said.email) if text is not None]
        if not all(is_one_line(text) and is_storable(text) for text in texts):
            raise InvalidSubmission("responded_by: name and email must be text on one line.")
        return RespondedBy(name=said.name, email=said.email) if texts else None


class CaseSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One case in a list, with its state."""

    type: str
    poll: PollResponse
    previous_case_id: str | None = None


class CaseList(Struct, frozen=True, kw_only=True):
    """A page of the caller's cases; `next` asks for the page after it."""

    cases: tuple[CaseSummary, ...]
    next: str | None = None


class CaseListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cases to list."""

    status: Annotated[Status | None, Meta(description="Only cases in this state.")] = None
    before: Annotated[CaseId | None, Meta(description="The `next` of the page before.")] = None
    limit: PageLimit = 50
    chain: Annotated[
        CaseId | None,
        Meta(description="Instead: all rounds of the chain that this case belongs to, oldest first."),
    ] = None


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a case is withdrawn."""

    reason: Annotated[str, Meta(max_length=2000)] | None = None


class ReceiptReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of the calls of a case."""

    receipts: Annotated[tuple[CallReceipt, ...], Meta(max_length=MAX_RECEIPTS)]


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """One server-sent event."""

    id: Annotated[
        str, Meta(description="Its number in the case's log; reconnect with the last one you received.")
    ]
    event: Literal[
        "review.opened",
        "review.in_progress",
        "review.reminder",
        "review.handed_back",
        "review.completed",
        "review.expired",
        "review.cancelled",
    ]
    data: Annotated[
        str,
        Meta(
            description="What happened, as JSON on one line.",
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/EventData"},
            },
        ),
    ]


_LISTED = examples.as_examples(
    one=CaseList(cases=(CaseSummary(type=next(iter(REVIEW_TYPES)), poll=examples.PENDING),))
)
_REASON = examples.as_examples(reason=CancelRequest(reason="Sent by phone."))
_ANSWER = examples.as_examples(
    approved=AnswerRequest(
        action="approve", responded_by=AnsweringPerson(name="Ada", email="ada@example.com")
    )
)
_REPORT = ReceiptReport(
    receipts=(
        CallReceipt(call_id="call_7d1", outcome=ExecutionOutcome.RAN, at=examples.ANSWERED_AT),
        CallReceipt(call_id="call_7d2", outcome=ExecutionOutcome.NOT_CLAIMED, at=examples.ANSWERED_AT),
    )
)
_COMPLETED_DATA = EventData(case_id=examples.CASE, completed_at=examples.ANSWERED_AT, result=examples.RESULT)
_EVENTS = examples.as_examples(
    completed=StreamedEvent(
        id="3", event="review.completed", data=msgspec.json.encode(_COMPLETED_DATA).decode()
    )
)

_ANSWERING: RouteOptions = {
    "description": (
        "Only after a person pressed a button for it, and only with the case's `submit_token`. The first "
        "answer stands; every later one gets 409. After a 403, send the person to the review link."
    ),
    "parameters": (CASE_ID, IDEMPOTENCY_KEY),
    "body": RequestBody(
        model=SubmitRequest,
        description="The action, the messenger, and the person who pressed the button.",
        examples=examples.SUBMISSION,
    ),
    "reply": RouteReply(
        description="The answer is accepted.", model=SubmitReceipt, examples=examples.RECEIPT
    ),
    "errors": (
        InvalidSubmission,
        InvalidAction,
        InvalidSelection,
        InvalidInput,
        ActionNotInline,
        VerificationRequired,
        VerificationFailed,
        CaseNotFound,
        AlreadyClosed,
        CaseExpired,
    ),
}

_draft_decoder = msgspec.json.Decoder(CaseDraft)
_submit_decoder = msgspec.json.Decoder(SubmitRequest)
_answer_decoder = msgspec.json.Decoder(AnswerRequest)
_cancel_decoder = msgspec.json.Decoder(CancelRequest)
_encode = msgspec.json.Encoder().encode


class CaseApi(HttpApi):
    """Handles the routes about cases; all but the list are raw ASGI."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        authenticate: Authenticate,
        poll: StatusPoll,
        streams: EventStreams,
        base_url: str,
    ) -> None:
        self._desk = desk
        self._base_url = base_url
        self._authenticate = authenticate
        self._poll = poll
        self._streams = streams

    @cases.declare(
        OPEN_CASE,
        handling="raw",
        parameters=(IDEMPOTENCY_KEY,),
        body=RequestBody(
            model=CaseDraft,
            description="The question. The content of `context` depends on `type`; see the examples.",
            examples=examples.DRAFTS,
            rules=_DRAFT_RULES,
        ),
        reply=RouteReply(
            status=202,
            description="The case is open and waits for the person.",
            model=HumanInputRequired,
            headers=("Retry-After",),
            examples=examples.OPENED,
        ),
        errors=(InvalidForm, RateLimited),
    )
    async def open_case(self, scope: Scope, receive: Receive, _: str) -> RawReply:
        """Open a case.

        Send `hitl.review_url` to the reviewer: anyone with this link can answer. Poll `hitl.poll_url` for the
        answer. The tokens are only in this response; they cannot be read again.
        """
        principal = await self._authenticate(scope)
        require_caller(principal, "cases:write")
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        draft = decode(_draft_decoder, body)
        if draft.review_url is not None:
            require_scope(principal, CASES_ANSWER)
        opened = await self._desk.open(
            draft,
            principal,
            idempotency_key=read_text_header(scope, b"idempotency-key"),
        )
        return build_json_reply(202, opened.body, POLL_AGAIN)

    @cases.declare(
        LIST_CASES,
        query=CaseListQuery,
        reply=RouteReply(description="A page of cases.", model=CaseList, examples=_LISTED),
        errors=(CaseNotFound,),
    )
    async def list_cases(self, request: ApiRequest) -> CaseList:
        """List your cases.

        Newest first. Use it to catch up after missed callbacks.
        """
        query = request.read_query(CaseListQuery)
        if query.chain is not None:
            case = await self._desk.get_owned_case(query.chain, request.principal)
            rounds = await self._desk.list_rounds(case)
            return CaseList(cases=tuple(_summarize(one) for one in rounds if one.erased_at is None))
        found = await self._desk.list_cases(
            request.principal, status=query.status, before=query.before, limit=query.limit
        )
        return CaseList(
            cases=tuple(_summarize(one) for one in found if one.erased_at is None),
            next=found[-1].id if len(found) == query.limit else None,
        )

    @cases.declare(
        POLL_CASE,
        handling="raw",
        credential="apiKeyOrNone",
        parameters=(
            CASE_ID,
            Parameter(
                name="If-None-Match", location="header", type=str, description="The `ETag` you have seen."
            ),
        ),
        replies=(
            RouteReply(
                description="The state. `result` is there once `status` is `completed`.",
                model=PollResponse,
                headers=("ETag",),
                optional_headers=("Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining"),
                examples=examples.POLLS,
            ),
            RouteReply(
                status=304,
                description="The state has not changed since that ETag.",
                headers=("ETag",),
                optional_headers=("Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining"),
            ),
        ),
        errors=(CaseNotFound, RateLimited),
    )
    async def poll_case(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        """Get the state of a case.

        Poll as often as `Retry-After` says. Send the last `ETag` as `If-None-Match`: a 304 does not count
        against the rate limit, and neither does a closed case. The `reader` of the draft may do it too.
        """
        case, principal = await self._authorize_reading(scope, POLL_CASE, case_id)
        return await self._poll.reply(scope, case, principal)

    @cases.declare(
        FOLLOW_CASE,
        handling="raw_stream",
        credential="apiKeyOrNone",
        parameters=(
            CASE_ID,
            Parameter(
                name="Last-Event-ID",
                location="header",
                type=str,
                description="The `id` of the last event seen.",
            ),
        ),
        reply=RouteReply(
            description="Events as they happen, each in this form; comments keep the connection open.",
            model=StreamedEvent,
            media="text/event-stream",
            examples=_EVENTS,
        ),
        errors=(CaseNotFound, RateLimited),
    )
    async def follow_case(self, scope: Scope, receive: Receive, send: Send, case_id: str) -> None:
        """Stream the events of a case.

        Server-sent events: `review.opened`, `review.in_progress`, `review.reminder`, `review.handed_back` (a
        reviewer declined; the case stays open) and one of `review.completed`, `review.expired` and
        `review.cancelled`, after which the stream ends.
        Reconnect with `Last-Event-ID` to get the events you missed. The stream also ends when your key
        expires or is revoked. The `reader` of the draft may do it too.
        """
        case, principal = await self._authorize_reading(scope, FOLLOW_CASE, case_id)
        is_reader = principal is READER  # Placet does not learn when the service revokes that credential
        check = None if is_reader else partial(self._check_same_principal, scope, principal.name)
        await self._streams.serve(scope, receive, send, case, check=check)

    @cases.declare(
        CANCEL_CASE,
        handling="raw",
        parameters=(CASE_ID,),
        body=RequestBody(
            model=CancelRequest, description="The reason, optional.", examples=_REASON, required=False
        ),
        reply=RouteReply(
            description="The case is withdrawn.", model=PollResponse, examples=examples.WITHDRAWN
        ),
        errors=(CaseNotFound, AlreadyClosed, CaseExpired),
    )
    async def cancel_case(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        """Withdraw a case.

        It can no longer be answered, and its page says that it was withdrawn.
        """
        principal = await self._authenticate(scope)
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        require_caller(principal, "cases:write")
        request = decode(_cancel_decoder, body) if body.strip() else CancelRequest()
        case = await self._desk.cancel(case_id, principal, reason=request.reason)
        return build_json_reply(200, _encode(build_poll_response(case)))

    @own_pages.declare(
        ANSWER_CASE,
        handling="raw",
        parameters=(CASE_ID, IDEMPOTENCY_KEY),
        body=RequestBody(model=AnswerRequest, description="The answer, and who gave it.", examples=_ANSWER),
        reply=RouteReply(
            description="The answer is accepted.", model=PollResponse, examples=examples.ANSWERED
        ),
        errors=(
            InvalidSubmission,
            InvalidAction,
            InvalidSelection,
            InvalidInput,
            CaseNotFound,
            AlreadyClosed,
            CaseExpired,
        ),
    )
    async def answer_case(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        """Send an answer from your own page.

        For a case that was opened with `review_url`, by a key with the scope `cases:answer`. The first answer
        stands; every later one gets 409.
        """
        principal = await self._authenticate(scope)
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        require_caller(principal, CASES_ANSWER)
        request = decode(_answer_decoder, body, misfit=InvalidSubmission)
        key = read_text_header(scope, b"idempotency-key")
        case = await self._desk.answer_for_reviewer(
            case_id,
            principal,
            action=request.action,
            data=request.data,
            responded_by=request.person,
            replay_digest=_digest_replay(case_id, key, body),
        )
        return build_json_reply(200, _encode(build_poll_response(case)))

    @cases.declare(
        REPORT_CALLS,
        parameters=(CASE_ID,),
        body=RequestBody(
            model=ReceiptReport,
            description="What became of calls that the case decided.",
            examples=examples.as_examples(ran=_REPORT),
        ),
        reply=RouteReply(
            description="All receipts of the case.",
            model=ReceiptReport,
            examples=examples.as_examples(ran=_REPORT),
        ),
        errors=(CaseNotFound, CaseStillOpen),
    )
    async def report_calls(self, request: ApiRequest) -> ReceiptReport:
        """Report what became of the calls.

        Send this after an approved tool call has ended, or when it is certain that it never runs. The page
        and the inbox show it; before, they say "approved, not run yet". After an error, send it again: the
        first receipt of each call counts. `at` is when the call ended, by default now.
        """
        report = request.read_body(ReceiptReport)
        case_id = request.path["case_id"]
        case = await self._desk.report_calls(case_id, request.principal, report.receipts)
        return ReceiptReport(receipts=case.receipts)

    @answers.declare(RESPOND, **_ANSWERING)
    async def respond(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        """Answer a case inline."""
        return await self._answer(scope, receive, case_id)

    @answers.post("/v1/reviews/{case_id}/submit", "submit", **_ANSWERING)
    async def submit(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        """Answer a case inline, under another path."""
        return await self._answer(scope, receive, case_id)

    async def _answer(self, scope: Scope, receive: Receive, case_id: str) -> RawReply:
        body = await read_body(scope, receive, limit=self._desk.limits.max_body_bytes)
        token = read_bearer_token(scope)
        try:
            request = decode(_submit_decoder, body, misfit=InvalidSubmission)
        except BadRequest:
            await self._desk.require_submitter(case_id, token)  # do not describe the body to others
            raise
        key = read_text_header(scope, b"idempotency-key")
        replay_digest = _digest_replay(case_id, key, body)
        receipt = await self._desk.submit_inline(case_id, token, request, replay_digest=replay_digest)
        return build_json_reply(200, _encode(receipt))

    async def _authorize_reading(
        self, scope: Scope, operation: OperationAddress, case_id: str
    ) -> tuple[Case, Principal]:
        """Return the case, and who reads it: a principal that may, or the reader whom the draft named."""
        try:
            principal = await self._authenticate(scope)
            return await self._poll.get_current_case(case_id, principal), principal
        except KeyEnded:  # a key that was revoked here ends everywhere
            raise
        except (InvalidToken, CaseNotFound):
            is_by = self._recognize_reader(scope, operation, case_id)
            case = await self._desk.find_case_of_reader(case_id, is_by) if is_by else None
            if case is None:
                raise
            return case, READER

    def _recognize_reader(
        self, scope: Scope, operation: OperationAddress, case_id: str
    ) -> Callable[[CaseReader], bool] | None:
        """Return whether a reader sent this request; None if it has neither a credential nor a signature."""
        credential = read_reader_credential(scope)
        signed = read_signed_request(scope, operation.url(self._base_url, case_id=case_id))
        if credential is None and signed is None:
            return None

        def is_by(reader: CaseReader) -> bool:
            if credential is not None and reader.matches_credential(credential):
                return True
            return (
                signed is not None
                and reader.public_key is not None
                and is_signed_with(signed, reader.public_key, now=self._desk.now())
            )

        return is_by

    async def _check_same_principal(self, scope: Scope, name: str | None) -> None:
        """Raise unless the credential still belongs to this principal, who may still read."""
        principal = await self._authenticate(scope)
        require_reading(principal)
        if principal.name != name:
            raise InvalidToken("This credential now belongs to another principal.")


async def authorize_caller(route: Route, request: ApiRequest) -> ApiRequest:
    """Return the request if its sender has the scope that the route needs."""
    if route.scope is not None:
        require_caller(request.principal, route.scope)
    return request


def read_reader_credential(scope: Scope) -> str | None:
    """Return the credential of a request, as services usually take it: Bearer token or X-API-Key."""
    scheme, _, token = (read_text_header(scope, b"authorization") or "").partition(" ")
    credential = token.strip() if scheme.lower() == "bearer" else read_text_header(scope, b"x-api-key")
    return credential or None


def _digest_replay(case_id: str, key: str | None, body: bytes) -> str | None:
    """Return the digest by which a repeated answer is known, or None without an Idempotency-Key."""
    return None if key is None else idempotency.digest(case_id, idempotency.check_key(key), body)


def require_caller(principal: Principal, scope: str) -> None:
    """Raise InvalidToken without a credential, NotPermitted for one without this scope."""
    if principal.name is None and scope not in principal.scopes:
        raise InvalidToken("Send an API key as `Authorization: Bearer …`.")
    require_scope(principal, scope)


def _summarize(case: Case) -> CaseSummary:
    return CaseSummary(type=case.type, poll=build_poll_response(case), previous_case_id=case.previous_case_id)
