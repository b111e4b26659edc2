"""The cases API: open, list, withdraw, answer inline (ruling 15)."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from placet.cases.case import Case
from placet.cases.wire import poll_response
from placet.desk import replays
from placet.desk.access import require_scope
from placet.desk.draft import CaseDraft, CaseId
from placet.desk.review_desk import ReviewDesk
from placet.errors import BadRequest, InvalidSubmission, InvalidToken, ValidationFailed
from placet.ports.identity import Principal
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest
from placet.protocol.poll import PollResponse, Status
from placet.server.wire import Scope, bearer_token, decode, text_header

MAX_PAGE = 200


class CaseSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One case in a list: what it is and where it stands."""

    type: str
    poll: PollResponse
    previous_case_id: str | None = None


class CaseList(Struct, frozen=True, kw_only=True):
    """A page of the caller's cases; `next` asks for the page after it."""

    cases: tuple[CaseSummary, ...]
    next: str | None = None


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a case is withdrawn."""

    reason: Annotated[str, Meta(max_length=2000)] | None = None


_draft_decoder = msgspec.json.Decoder(CaseDraft)
_submit_decoder = msgspec.json.Decoder(SubmitRequest)
_cancel_decoder = msgspec.json.Decoder(CancelRequest)


class CaseApi:
    """What the API does, once HTTP has been read and before it is written."""

    def __init__(self, desk: ReviewDesk) -> None:
        self.desk = desk

    async def open(self, scope: Scope, body: bytes, principal: Principal) -> bytes:
        """Open a case; returns the 202 body."""
        require_caller(principal, "cases:write")
        opened = await self.desk.open(
            decode(_draft_decoder, body), principal, idempotency_key=text_header(scope, b"idempotency-key")
        )
        return opened.body

    async def submit(self, scope: Scope, body: bytes, case_id: str) -> SubmitReceipt:
        """Take an inline answer under the case's submit token."""
        token = bearer_token(scope)
        try:
            request = decode(_submit_decoder, body, misfit=InvalidSubmission)
        except BadRequest:
            await self.desk.require_submitter(case_id, token)  # strangers learn nothing of the body's shape
            raise
        key = text_header(scope, b"idempotency-key")
        replay_digest = replays.digest(case_id, replays.check_key(key), body) if key is not None else None
        return await self.desk.submit_inline(case_id, token, request, replay_digest=replay_digest)

    async def cancel(self, body: bytes, case_id: str, principal: Principal) -> PollResponse:
        """Withdraw a case."""
        require_caller(principal, "cases:write")
        request = decode(_cancel_decoder, body) if body.strip() else CancelRequest()
        return poll_response(await self.desk.cancel(case_id, principal, reason=request.reason))

    async def list(self, query: Mapping[str, str], principal: Principal) -> CaseList:
        """The caller's cases, newest first, by status or by chain."""
        require_caller(principal, "cases:read")
        if "chain" in query:
            case = await self.desk.owned(query["chain"], principal)
            rounds = await self.desk.rounds(case)
            return CaseList(cases=tuple(_summary(one) for one in rounds if one.erased_at is None))
        limit = page_limit(query.get("limit"))
        cases = await self.desk.listed(
            principal,
            status=status_of(query.get("status")),
            before=id_of(query, "before"),
            limit=limit,
        )
        return CaseList(
            cases=tuple(_summary(one) for one in cases if one.erased_at is None),
            next=cases[-1].id if len(cases) == limit else None,
        )


def require_caller(principal: Principal, scope: str) -> None:
    """Someone with a credential that carries the scope."""
    if principal.name is None and scope not in principal.scopes:
        raise InvalidToken("Send an API key as `Authorization: Bearer …`.")
    require_scope(principal, scope)


def status_of(text: str | None) -> Status | None:
    """The status a query asks for."""
    try:
        return None if text is None else Status(text)
    except ValueError as error:
        raise ValidationFailed(f"status is one of {', '.join(Status)}.") from error


def id_of(query: Mapping[str, str], name: str) -> str | None:
    """The case id a query names."""
    try:
        return msgspec.convert(query.get(name), CaseId | None)
    except msgspec.ValidationError as error:
        raise ValidationFailed(f"{name} is the id of a case.") from error


def page_limit(text: str | None) -> int:
    """How many a page holds."""
    if text is None:
        return 50
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_PAGE):
        raise ValidationFailed(f"limit is a number from 1 to {MAX_PAGE}.")
    return int(text)


def _summary(case: Case) -> CaseSummary:
    return CaseSummary(type=case.type, poll=poll_response(case), previous_case_id=case.previous_case_id)
