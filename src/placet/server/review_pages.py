"""Serve the review pages: open a link, show the page, take the answer. GET changes nothing (ruling 4)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from placet.cases.case import Case, Offer
from placet.cases.wire import build_poll_response
from placet.desk import idempotency
from placet.desk.answer import Answer
from placet.desk.review_desk import ReviewDesk
from placet.errors import (
    AlreadyClosed,
    BadRequest,
    BodyTooLarge,
    CaseConflict,
    CaseExpired,
    CaseNotFound,
    ContentAltered,
    ContentChanged,
    InvalidInput,
    InvalidSubmission,
    InvalidToken,
    OutsideFrameRequired,
    PlacetError,
    RateLimited,
    SecondPersonRequired,
    SessionEnded,
    Unavailable,
    ValidationFailed,
    VerificationFailed,
    VerificationRequired,
)
from placet.http.asgi import ClientDisconnected, read_bearer_token, read_body
from placet.http.decoding import decode
from placet.http.error_replies import describe_error
from placet.http.route import HttpApi, Route, pages
from placet.http.routing import build_json_response
from placet.pages.page_texts import HAND_BACK_REASONS
from placet.pages.renderer import PageRenderer
from placet.protocol.inline_submit import ActionName
from placet.protocol.poll import RespondedBy, Status
from placet.protocol.verification import Evidence
from placet.reviews.form_post import PostResult
from placet.reviews.result_schema import read_result_fields
from placet.reviews.review_type import ReviewType
from placet.server.case_sessions import CaseSession, CaseSessions
from placet.server.form_drafts import Drafts
from placet.server.inbox_sessions import InboxSessions
from placet.server.page_replies import PageReplies
from placet.server.page_requests import PageAccess, PagePost
from placet.server.page_views import FormState, PageViews
from placet.server.prefill import Prefill
from placet.server.streams import EventStreams, StreamResponse
from placet.server.verification_pages import VerificationPages
from placet.text.characters import is_storable, normalize_newlines

MAX_NOTE_LENGTH = 2000
FORM = "application/x-www-form-urlencoded"
POSTED = ("respond", "hand-back", "pass-on", "language", "revoke")
Identify = Callable[[Request], Awaitable[RespondedBy | None]]


class PageSubmission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that a service's own page posts as JSON with the review token."""

    action: ActionName
    data: dict[str, Any] = field(default_factory=dict)
    shown: str | None = None
    verification_evidence: tuple[Evidence, ...] = ()


_submission_decoder = msgspec.json.Decoder(PageSubmission)


class ReviewPages(HttpApi):
    """Serves review pages and handles what reviewers do there."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        renderer: PageRenderer,
        sessions: CaseSessions,
        load_type: Callable[[Offer], ReviewType],
        prefill: Prefill,
        replies: PageReplies,
        streams: EventStreams,
        identify: Identify | None = None,
        inbox: InboxSessions | None = None,
        verification: VerificationPages | None = None,
    ) -> None:
        self._desk = desk
        self._streams = streams
        self._identify = identify
        self._verification = verification
        self._access = PageAccess(desk, sessions, replies, inbox)
        self._load_type = load_type
        self._prefill = prefill
        self._replies = replies
        self._language = replies.languages.of
        self._views = PageViews(
            desk=desk,
            renderer=renderer,
            load_type=load_type,
            replies=replies,
            make_ticket=self._access.make_ticket,
        )
        self._drafts = Drafts(
            desk=desk,
            access=self._access,
            load_type=load_type,
            saved=self._load_saved,
            language=self._language,
        )

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the pages and of the drafts that their scripts save."""
        proofs = self._verification.routes() if self._verification else ()
        wrapped = (replace(route, handler=self.wrap_handler(route.handler)) for route in proofs)
        return (*wrapped, *super().routes(), *self._drafts.routes())

    @pages.get("/review/{case_id}", "showReviewPage")
    async def show(self, request: Request) -> Response:
        """Show the page; exchange a link with a token for a session first (ruling 11)."""
        token = request.query_params.get("token")
        try:
            return await self._show_page(request, token)
        except CaseNotFound as error:
            erased = await self._access.find_erased_case(request, token)
            if erased is None:
                raise
            return await self._views.show_closed(erased, None, self._language(request), status=error.status)

    async def _show_page(self, request: Request, token: str | None) -> Response:
        case_id = request.path_params["case_id"]
        language = self._language(request)
        if token is not None:
            case, link = await self._desk.admit(case_id, token)
            return await self._enter(request, case, link)
        case, offer = await self._desk.get_case_and_offer(case_id)
        ticket = request.query_params.get("ticket")
        if ticket is not None:
            return await self._enter(request, case, self._access.admit_ticket(case, ticket))
        session = await self._access.require_session(request, case)
        if not case.live or self._desk.now() >= case.expires_at:
            return await self._views.show_closed(case, offer, language, session=session)
        saved, step = await self._load_saved(case, offer)
        asked = request.query_params.get("step", "")
        wanted = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 4 else step
        place = self._load_type(offer).find_step(offer, saved, wanted)
        return await self._views.show_open(
            case, offer, session, FormState(values=saved, step=place or 0), language
        )

    async def _enter(self, request: Request, case: Case, link: str) -> Response:
        cookie = self._access.begin_session(request, case, link)
        return self._replies.enter(request, case.id, cookie, await self._find_step_to_resume(case))

    async def _find_step_to_resume(self, case: Case) -> int | None:
        """Return the step to continue with, or None if the page has no steps."""
        _, offer = await self._desk.get_case_and_offer(case.id)
        draft = await self._desk.store.get_draft(case.id)
        values, step = (draft.values, draft.step) if draft else ({}, 0)
        return self._load_type(offer).find_step(offer, values, step) if case.live else None

    @pages.get("/review/{case_id}/events", "followReviewPage")
    async def events(self, request: Request) -> Response:
        """Stream the case's events to its open page, without their data."""
        case, _ = await self._desk.get_case_and_offer(request.path_params["case_id"])
        await self._access.require_session(request, case)
        return StreamResponse(self._streams, case, partial(self._check_session, request))

    async def _check_session(self, request: Request) -> None:
        """Raise unless the page's session is still valid: its link may be revoked, its person signed out."""
        case, _ = await self._desk.get_case_and_offer(request.path_params["case_id"])
        await self._access.require_session(request, case)

    @pages.post("/review/{case_id}/opened", "markOpened")
    async def mark_opened(self, request: Request) -> Response:
        """Record that a reviewer has opened the page, as reported by its script."""
        post = await self._access.read_post(request)
        await self._desk.view(post.case.id, actor=post.session.actor)
        return self._replies.build_empty_reply()

    @pages.post("/review/{case_id}/respond", "answerOnPage")
    async def respond(self, request: Request) -> Response:
        """Take an answer, a step of a wizard, or a JSON answer from a service's own page."""
        if not is_form(request):
            return await self._respond_json(request)
        post = await self._access.read_post(request)
        if post.session.is_framed and self._load_type(post.offer).is_high_risk(post.offer):
            raise OutsideFrameRequired()
        async with self._drafts.lock_case(post.case.id):
            return await self._respond(request, post)

    async def _respond(self, request: Request, post: PagePost) -> Response:
        move = post.value("action") or ""
        saved, _ = await self._load_saved(post.case, post.offer)
        rules = self._load_type(post.offer)
        if rules.post_evaluates_schema(post.offer, move, post.typed):
            try:
                turn = await self._desk.turns.run(
                    post.case.owner, rules.handle_post, post.offer, move, post.typed, saved
                )
            except InvalidSubmission as error:
                turn = rules.read_draft(post.offer, post.typed, saved)
                return await self._views.show_again(
                    post, turn, self._language(request), status=error.status, error=error
                )
        else:
            turn = rules.handle_post(post.offer, move, post.typed, saved)
        if turn.ready:
            return await self._answer(request, post, move, turn)
        await self._desk.save_progress(
            post.case.id,
            actor=post.session.actor,
            values=turn.values,
            step=turn.step,
            progress=turn.progress,
        )
        if not turn.problems and not turn.more_asked:
            return self._replies.go(post.case.id, turn.step)
        status = 400 if turn.problems else 200
        return await self._views.show_again(post, turn, self._language(request), status=status)

    @pages.get("/review", "redirectFromReviews")
    @pages.get("/review/{rest:path}", "redirectFromReviewPath")
    async def redirect(self, request: Request) -> Response:
        """Redirect from a form's address to its page; raise InvalidToken for an incomplete link."""
        case_id, _, part = request.path_params.get("rest", "").partition("/")
        if part in POSTED:
            return self._replies.go(case_id)
        raise InvalidToken()

    @pages.post("/review/{case_id}/hand-back", "handBack")
    async def hand_back(self, request: Request) -> Response:
        """Hand the case back: the reviewer will not decide it, and it stays open for others."""
        post = await self._access.read_post(request)
        typed = post.value("hand_back_reason")
        if typed is None:  # the page of a service's theme may have another form
            typed = post.value("reason")
        picked = HAND_BACK_REASONS.get(post.value("why") or "")
        parts = [self._language(request).t(picked) if picked else "", clean_note(typed)]
        reason = "\n\n".join(part for part in parts if part)[:MAX_NOTE_LENGTH]
        person = await self._find_person(request, post.session)
        await self._desk.hand_back(post.case.id, actor=post.session.actor, reason=reason or None, by=person)
        return self._replies.go(post.case.id)

    @pages.post("/review/{case_id}/language", "changeLanguage")
    async def change_language(self, request: Request) -> Response:
        """Show the page in another language; save what was entered if the case is open."""
        post = await self._access.read_post(request)
        try:
            turn = await self._drafts.save(post)
        except (AlreadyClosed, CaseExpired):
            return self._replies.go(post.case.id)
        place = self._load_type(post.offer).find_step(post.offer, turn.values, turn.step)
        return self._replies.go(post.case.id, place)

    @pages.post("/review/{case_id}/pass-on", "passOn")
    async def pass_on(self, request: Request) -> Response:
        """Create a link for a colleague and show it once; save what was entered for the answer."""
        post = await self._access.read_post(request)
        language = self._language(request)
        if post.value("shown") is not None:  # else the form has no answer fields
            await self._drafts.save(post)
        note = clean_note(post.value("pass_on_note"))[:MAX_NOTE_LENGTH]
        try:
            link = await self._desk.pass_on(post.case.id, actor=post.session.actor, note=note or None)
        except ValidationFailed as error:
            values, step = await self._load_saved(post.case, post.offer)
            turn = PostResult(values=values, ready=False, step=step, problems={"pass_on_note": error.message})
            return await self._views.show_again(post, turn, language, status=error.status)
        return self._views.show_pass_on(post.case, link, language)

    @pages.post("/review/{case_id}/revoke", "revokeGrantOnPage")
    async def revoke(self, request: Request) -> Response:
        """Revoke a grant of this case. Anyone with the link could have given it, so they may revoke it."""
        post = await self._access.read_post(request)
        grant = await self._desk.store.get_grant(post.value("grant") or "")
        if grant is None or grant.case_id != post.case.id:
            raise CaseNotFound()
        await self._desk.grants.revoke_as(grant.id, post.session.actor)
        return self._replies.go(post.case.id)

    # Answers

    async def _answer(self, request: Request, post: PagePost, action: str, turn: PostResult) -> Response:
        key = post.value("idempotency_key")
        data = turn.values if turn.data is None else turn.data
        if post.offer.result_schema is not None:  # fields of a theme's own template
            data = {**data, **read_result_fields(post.offer.result_schema, post.typed)}
        answer = Answer(
            action=turn.action or action,
            data=data,
            path="browser_submit",
            actor=post.session.actor,
            submitted_via="inbox" if post.session.key_name else None,
            responded_by=await self._find_person(request, post.session),
            replay_digest=idempotency.digest(post.case.id, key) if key else None,
        )
        try:
            if self._verification is not None and self._verification.applies_to(post.offer):
                return await self._verification.begin(request, post, answer)
            await self._desk.answer(post.case.id, answer, shown=post.value("shown") or "")
        except (InvalidInput, BadRequest) as error:
            return await self._views.show_again(
                post, turn, self._language(request), status=error.status, error=error
            )
        return self._replies.go(post.case.id)

    async def _respond_json(self, request: Request) -> Response:
        """Take a JSON answer (spec 16, `submitReview`); the review token is the credential, not a cookie."""
        try:
            case_id = request.path_params["case_id"]
            token = request.query_params.get("token") or read_bearer_token(request.scope)
            _, link = await self._desk.admit(case_id, token or "")
            body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
            submission = decode(_submission_decoder, body, misfit=InvalidSubmission)
            key = request.headers.get("idempotency-key")
            answer = Answer(
                action=submission.action,
                data=submission.data,
                path="browser_submit",
                actor=f"link:{link[:8]}",
                responded_by=await self._find_person(request) if is_json(request) else None,
                evidence=submission.verification_evidence,
                replay_digest=idempotency.digest(case_id, idempotency.check_key(key), body) if key else None,
            )
            case = await self._desk.answer(case_id, answer, shown=submission.shown)
        except PlacetError as error:
            status, flat, extra = describe_error(error)
            headers = {name.decode(): value.decode() for name, value in extra}
            return Response(flat, status, {"cache-control": "no-store", **headers}, "application/json")
        return build_json_response(build_poll_response(case))

    async def _find_person(self, request: Request, session: CaseSession | None = None) -> RespondedBy | None:
        """Return who answers, if the service or the inbox knows; a link identifies no person."""
        known = await self._identify(request) if self._identify else None
        if known is None and session is not None and session.key_name is not None:
            return RespondedBy(name=session.key_name)
        return known

    async def _load_saved(self, case: Case, offer: Offer) -> tuple[dict[str, Any], int]:
        """Return the form's values and step: fetched defaults, overridden by the saved draft."""
        draft = await self._desk.store.get_draft(case.id)
        values = await self._prefill.values(case, offer)
        return ({**values, **draft.values}, draft.step) if draft else (values, 0)

    # Errors

    def wrap_handler(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that shows errors as pages with one next step."""

        async def serve(request: Request) -> Response:
            response = self._replies.finish(request, await serve_or_refuse(request))
            self._replies.frames.open(response)
            return response

        async def serve_or_refuse(request: Request) -> Response:
            try:
                return await handler(request)
            except AlreadyClosed as error:
                return await self._explain_conflict(request, error)
            except PlacetError as error:
                return self._refuse(request, error)
            except ClientDisconnected:
                raise
            except Exception as error:
                return self._report_failure(request, error)

        return serve

    def _refuse(self, request: Request, error: PlacetError) -> Response:
        name = next((name for kind, name in MESSAGES if isinstance(error, kind)), None)
        if name is None:
            return self._report_failure(request, error)
        if isinstance(error, SessionEnded) and self._access.came_from_inbox(request):
            name = "signed_out"
        # A GET submits nothing, so the page must not say that an answer was not recorded.
        unsent = name == "not_recorded" and request.method != "POST"
        return self._build_message_page(request, "broken" if unsent else name, error.status)

    def _report_failure(self, request: Request, error: Exception) -> Response:
        """Log an unexpected error; show a page to a browser, and raise it again for a program."""
        if request.method == "POST" and not is_form(request):
            raise error
        describe_error(error)
        return self._build_message_page(request, "broken", 500)

    async def _explain_conflict(self, request: Request, error: AlreadyClosed) -> Response:
        """Show that the case was answered or withdrawn while the page was open."""
        case, offer = await self._desk.get_case_and_offer(request.path_params["case_id"])
        if case.status is Status.CANCELLED:
            return await self._views.show_closed(case, offer, self._language(request), status=error.status)
        name = "content_changed" if isinstance(error, ContentChanged) else "answered_elsewhere"
        return self._build_message_page(request, name, error.status)

    def _build_message_page(self, request: Request, name: str, status: int) -> Response:
        case_id = request.path_params.get("case_id", "")
        from_inbox = self._access.came_from_inbox(request)
        return self._views.show_message(name, status, case_id, self._language(request), from_inbox=from_inbox)


# The first match names the page. Other errors are our fault and are logged.
MESSAGES: tuple[tuple[type[PlacetError], str], ...] = (
    (SessionEnded, "session_ended"),
    (InvalidToken, "wrong_link"),
    (CaseNotFound, "not_found"),
    (CaseExpired, "too_late"),
    (CaseConflict, "answered_elsewhere"),
    (SecondPersonRequired, "second_person"),
    (OutsideFrameRequired, "outside_frame"),
    (VerificationRequired, "unproven"),
    (VerificationFailed, "unproven"),
    (BodyTooLarge, "unreadable"),
    (InvalidSubmission, "unreadable"),
    (RateLimited, "too_busy"),
    (ContentAltered, "altered"),
    (Unavailable, "not_recorded"),
)


def clean_note(text: str | None) -> str:
    """Return a reviewer's note without characters that cannot be stored."""
    return "".join(each for each in normalize_newlines(text or "") if is_storable(each)).strip()


def is_form(request: Request) -> bool:
    """Whether the request posts a page's form."""
    return _read_media_type(request) == FORM


def is_json(request: Request) -> bool:
    """Whether the media type is JSON, which a form on another site cannot send with cookies."""
    return _read_media_type(request) == "application/json"


def _read_media_type(request: Request) -> str:
    return (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
