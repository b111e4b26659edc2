"""The person's side over HTTP: the link, the page, the answer. GET changes nothing (ruling 4)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.cases.case import Case, Offer
from assent.cases.wire import poll_response
from assent.desk import minting, replays
from assent.desk.answer import Answer
from assent.desk.review_desk import ReviewDesk
from assent.errors import (
    AlreadyClosed,
    AssentError,
    BadRequest,
    BodyTooLarge,
    CaseConflict,
    CaseExpired,
    CaseNotFound,
    ContentChanged,
    InvalidInput,
    InvalidSubmission,
    InvalidToken,
    RateLimited,
    SessionEnded,
    Unavailable,
)
from assent.pages.renderer import PageRenderer
from assent.pages.view import ClosedView, MessageView, PassOnView, ReviewView, Round
from assent.protocol.inline_submit import ActionName
from assent.protocol.poll import RespondedBy, Status
from assent.protocol.verification import Evidence
from assent.reviews import BaseKind
from assent.reviews.turn import Turn
from assent.server.page_replies import PageReplies
from assent.server.prefill import Prefill
from assent.server.public import json_response
from assent.server.sessions import COOKIE, CaseSession, CaseSessions
from assent.server.wire import bearer_token, decode, describe_error, read_body

MAX_FIELDS = 2000
LONGEST_NOTE = 2000
FORM = "application/x-www-form-urlencoded"
Pairs = list[tuple[str, str]]
Identify = Callable[[Request], Awaitable[RespondedBy | None]]


class PageSubmission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that a service's own page sends as JSON, under the review token."""

    action: ActionName
    data: dict[str, Any] = field(default_factory=dict)
    shown: str | None = None
    verification_evidence: tuple[Evidence, ...] = ()


class Visit(Struct, frozen=True, kw_only=True):
    """A person's post from a page of ours: whose case, what it shows, and what was typed."""

    case: Case
    offer: Offer
    session: CaseSession
    pairs: Pairs

    def value(self, name: str) -> str | None:
        """The last value posted under this name."""
        return next((value for key, value in reversed(self.pairs) if key == name), None)


_submission_decoder = msgspec.json.Decoder(PageSubmission)


class ReviewPages:
    """Serves review pages and takes what people do there."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        renderer: PageRenderer,
        sessions: CaseSessions,
        kind: Callable[[str], BaseKind],
        prefill: Prefill,
        identify: Identify | None = None,
    ) -> None:
        self._desk = desk
        self._identify = identify
        self._renderer = renderer
        self._sessions = sessions
        self._kind = kind
        self._prefill = prefill
        self._replies = PageReplies(desk.addresses)
        self._static_url = f"{self._replies.prefix}/static"

    @property
    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/review/{case_id}", self._guarded(self.show)),
            Route("/review/{case_id}/respond", self._guarded(self.respond), methods=["POST"]),
            Route("/review/{case_id}/opened", self._guarded(self.opened), methods=["POST"]),
            Route("/review/{case_id}/decline", self._guarded(self.decline), methods=["POST"]),
            Route("/review/{case_id}/pass-on", self._guarded(self.pass_on), methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """The page; a link with a token is exchanged for a session first (ruling 11)."""
        case_id = request.path_params["case_id"]
        token = request.query_params.get("token")
        if token is not None:
            case, link = await self._desk.admit(case_id, token)
            return self._replies.enter(case.id, self._sessions.begin(case.id, link, self._desk.now()))
        case, offer = await self._desk.shown(case_id)
        session = self._session(request, case)
        if not case.live or self._desk.now() >= case.expires_at:
            return await self._closed(case, offer)
        saved, step = await self._saved(case, offer)
        return await self._open(case, offer, session, values=saved, step=step)

    async def opened(self, request: Request) -> Response:
        """The page's own script says that a person has it before them."""
        visit = await self._visit(request)
        await self._desk.view(visit.case.id, actor=visit.session.actor)
        return self._replies.done()

    async def respond(self, request: Request) -> Response:
        """An answer, a step of a wizard, or an answer in JSON from a service's own page."""
        if (request.headers.get("content-type") or "").partition(";")[0].strip().lower() != FORM:
            return await self._respond_json(request)
        visit = await self._visit(request)
        move = visit.value("action") or ""
        saved, _ = await self._saved(visit.case, visit.offer)
        turn = self._kind(visit.case.type).turn(visit.offer, move, _typed(visit.pairs), saved)
        if turn.ready:
            return await self._answer(visit, move, turn, await self._person(request))
        await self._desk.work(
            visit.case.id,
            actor=visit.session.actor,
            values=turn.values,
            step=turn.step,
            progress=turn.progress,
        )
        if not turn.problems and not turn.more_asked:
            return self._replies.go(visit.case.id)
        return await self._again(visit, turn, status=400 if turn.problems else 200)

    async def decline(self, request: Request) -> Response:
        """The person will not decide this."""
        visit = await self._visit(request)
        reason = (visit.value("reason") or "").strip()[:LONGEST_NOTE]
        await self._desk.decline(visit.case.id, actor=visit.session.actor, reason=reason or None)
        return self._replies.go(visit.case.id)

    async def pass_on(self, request: Request) -> Response:
        """A new link for a colleague, shown once."""
        visit = await self._visit(request)
        note = (visit.value("pass_on_note") or "").strip()[:LONGEST_NOTE]
        link = await self._desk.pass_on(visit.case.id, actor=visit.session.actor, note=note or None)
        view = PassOnView(
            link=link,
            review_url=f"{self._replies.prefix}/review/{visit.case.id}",
            expires_at=visit.case.expires_at,
            now=self._desk.now(),
            static_url=self._static_url,
        )
        return self._replies.page(self._renderer.pass_on(view))

    # Answers

    async def _answer(
        self, visit: Visit, action: str, turn: Turn, responded_by: RespondedBy | None
    ) -> Response:
        key = visit.value("idempotency_key")
        answer = Answer(
            action=action,
            data=turn.values,
            path="browser_submit",
            actor=visit.session.actor,
            responded_by=responded_by,
            replay_digest=replays.digest(visit.case.id, key) if key else None,
        )
        try:
            await self._desk.answer(visit.case.id, answer, shown=visit.value("shown") or "")
        except (InvalidInput, BadRequest) as error:
            return await self._again(visit, turn, status=error.status, error=error)
        return self._replies.go(visit.case.id)

    async def _respond_json(self, request: Request) -> Response:
        """Spec 16: `submitReview` posts JSON; the review token is its credential, so no cookie is read."""
        try:
            case_id = request.path_params["case_id"]
            token = request.query_params.get("token") or bearer_token(request.scope)
            _, link = await self._desk.admit(case_id, token or "")
            body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
            submission = decode(_submission_decoder, body, misfit=InvalidSubmission)
            key = request.headers.get("idempotency-key")
            answer = Answer(
                action=submission.action,
                data=submission.data,
                path="browser_submit",
                actor=f"link:{link[:8]}",
                responded_by=await self._person(request),
                evidence=submission.verification_evidence,
                replay_digest=replays.digest(case_id, replays.check_key(key), body) if key else None,
            )
            case = await self._desk.answer(case_id, answer, shown=submission.shown)
        except AssentError as error:
            status, flat, extra = describe_error(error)
            headers = {name.decode(): value.decode() for name, value in extra}
            return Response(flat, status, {"cache-control": "no-store", **headers}, "application/json")
        return json_response(poll_response(case))

    # Pages

    async def _open(
        self,
        case: Case,
        offer: Offer,
        session: CaseSession,
        *,
        values: Mapping[str, Any],
        step: int,
        problems: Mapping[str, str] | None = None,
        notice: str | None = None,
        status: int = 200,
        idempotency_key: str | None = None,
    ) -> Response:
        kind = self._kind(case.type)
        page = f"{self._replies.prefix}/review/{case.id}"
        view = ReviewView(
            case=case,
            offer=offer,
            template=kind.template,
            substance=kind.substance(offer, values),
            now=self._desk.now(),
            csrf=session.csrf,
            idempotency_key=idempotency_key or minting.token(),
            static_url=self._static_url,
            respond_url=f"{page}/respond",
            decline_url=f"{page}/decline",
            pass_on_url=f"{page}/pass-on",
            opened_url=f"{page}/opened",
            step=step,
            values=dict(values),
            problems=dict(problems or {}),
            notice=notice,
            rounds=await self._rounds(case),
        )
        return self._replies.page(self._renderer.review(view), status=status)

    async def _again(
        self, visit: Visit, turn: Turn, *, status: int, error: BadRequest | None = None
    ) -> Response:
        """The page once more, with what was typed and what is wrong with it."""
        problems = dict(turn.problems)
        if error is not None:
            problems |= error.details.get("fields") or {"": error.message}
        return await self._open(
            visit.case,
            visit.offer,
            visit.session,
            values=turn.values,
            step=turn.step,
            problems=problems,
            notice="more_asked" if turn.more_asked else None,
            status=status,
            idempotency_key=visit.value("idempotency_key"),
        )

    async def _closed(self, case: Case, offer: Offer, *, status: int = 200) -> Response:
        decision = case.decision
        recap = self._kind(case.type).recap(offer, decision.result.data) if decision else []
        view = ClosedView(
            case=case,
            offer=offer,
            now=self._desk.now(),
            static_url=self._static_url,
            recap=tuple(recap),
            rounds=await self._rounds(case),
        )
        return self._replies.page(self._renderer.closed(view), status=status)

    async def _rounds(self, case: Case) -> tuple[Round, ...]:
        if case.previous_case_id is None:
            return ()
        chain = await self._desk.rounds(case)
        earlier = chain[: [one.id for one in chain].index(case.id)]
        return tuple([await self._round(one) for one in earlier if one.erased_at is None])

    async def _round(self, case: Case) -> Round:
        _, offer = await self._desk.shown(case.id)
        decision = case.decision
        recap = self._kind(case.type).recap(offer, decision.result.data) if decision else []
        return Round(
            asked_at=case.created_at,
            prompt=offer.prompt,
            action=decision.result.action if decision else None,
            recap=tuple(recap),
        )

    def _message(self, name: str, status: int, case_id: str | None = None) -> Response:
        review_url = f"{self._replies.prefix}/review/{case_id}" if case_id else None
        view = MessageView(name=name, static_url=self._static_url, review_url=review_url)
        return self._replies.page(self._renderer.message(view), status=status)

    # Who is there

    async def _person(self, request: Request) -> RespondedBy | None:
        """Who answers, where the service knows its people; a link alone tells nobody's name."""
        return await self._identify(request) if self._identify else None

    async def _visit(self, request: Request) -> Visit:
        case, offer = await self._desk.shown(request.path_params["case_id"])
        session = self._session(request, case)
        body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
        pairs = read_form(body)
        visit = Visit(case=case, offer=offer, session=session, pairs=pairs)
        if not self._sessions.csrf_holds(session, visit.value("csrf") or ""):
            raise SessionEnded()
        return visit

    def _session(self, request: Request, case: Case) -> CaseSession:
        session = self._sessions.read(case, request.cookies.get(COOKIE), self._desk.now())
        if session is None:
            raise SessionEnded()
        return session

    async def _saved(self, case: Case, offer: Offer) -> tuple[dict[str, Any], int]:
        """What the form starts from: fetched defaults under what the person saved."""
        draft = await self._desk.store.draft(case.id)
        values = await self._prefill.values(case, offer)
        return ({**values, **draft.values}, draft.step) if draft else (values, 0)

    def _guarded(
        self, serve: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Errors on these routes are pages with one next step."""

        async def guarded(request: Request) -> Response:
            case_id = request.path_params["case_id"]
            try:
                return await serve(request)
            except AlreadyClosed as error:
                return await self._beaten(case_id, error)
            except AssentError as error:
                name = next((name for kind, name in MESSAGES if isinstance(error, kind)), None)
                if name is None:
                    raise
                return self._message(name, error.status, case_id)

        return guarded

    async def _beaten(self, case_id: str, error: AlreadyClosed) -> Response:
        """The question was closed under the person's hands: by another answer, or withdrawn."""
        case, offer = await self._desk.shown(case_id)
        if case.status is Status.CANCELLED:
            return await self._closed(case, offer, status=error.status)
        name = "content_changed" if isinstance(error, ContentChanged) else "answered_elsewhere"
        return self._message(name, error.status, case_id)


# The first match names the page; what is not here is ours to answer for and is logged.
MESSAGES: tuple[tuple[type[AssentError], str], ...] = (
    (SessionEnded, "session_ended"),
    (InvalidToken, "wrong_link"),
    (CaseNotFound, "not_found"),
    (CaseExpired, "too_late"),
    (CaseConflict, "answered_elsewhere"),
    (BodyTooLarge, "unreadable"),
    (InvalidSubmission, "unreadable"),
    (RateLimited, "too_busy"),
    (Unavailable, "not_recorded"),
)


def read_form(body: bytes) -> Pairs:
    """The name and value pairs of a posted form; raises InvalidSubmission."""
    try:
        return parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
            errors="replace",
        )
    except ValueError as error:
        raise InvalidSubmission("The form could not be read.") from error


def _typed(pairs: Pairs) -> Pairs:
    own = {"csrf", "action", "shown", "idempotency_key"}
    return [(name, value) for name, value in pairs if name not in own]
