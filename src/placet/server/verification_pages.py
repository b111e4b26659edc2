"""Serve the page on which a person proves an answer before it is recorded."""

from collections.abc import Callable

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from placet.cases.action_labels import read_action_labels
from placet.cases.case import Case, Decision, Offer
from placet.desk.answer import Answer
from placet.desk.asker import describe_asker
from placet.desk.page_verification import PageVerification, ProofInput
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, CaseNotFound, Unavailable, VerificationFailed
from placet.http.route import HttpApi, pages
from placet.pages.renderer import PageRenderer
from placet.pages.verification_view import MethodView, VerificationView
from placet.ports.verification_store import VerificationAttempt
from placet.protocol.poll import Result, SubmissionContext
from placet.reviews.review_type import ReviewType
from placet.server.case_sessions import CaseSession
from placet.server.earlier_rounds import build_recap
from placet.server.page_replies import HEADERS, PageReplies
from placet.server.page_requests import PageAccess, PagePost

FindAddress = Callable[[Request], str | None]
START = "start:"
TYPED = ("email", "code", "credential")


class VerificationPages(HttpApi):
    """Serves `/review/{case_id}/verify/{attempt_id}`."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        verification: PageVerification,
        access: PageAccess,
        renderer: PageRenderer,
        replies: PageReplies,
        load_type: Callable[[Offer], ReviewType],
        find_address: FindAddress,
    ) -> None:
        self._desk = desk
        self._verification = verification
        self._access = access
        self._renderer = renderer
        self._replies = replies
        self._load_type = load_type
        self._find_address = find_address

    def applies_to(self, offer: Offer) -> bool:
        """Return whether an answer on our page needs proofs."""
        return self._verification.applies_to(offer)

    async def begin(self, request: Request, post: PagePost, answer: Answer) -> Response:
        """Hold the answer and lead to the page for its proofs."""
        attempt = await self._verification.begin(
            post.case,
            post.offer,
            answer,
            shown=post.value("shown") or "",
            address=self._find_address(request),
        )
        await self._desk.view(post.case.id, actor=answer.actor)
        if self._verification.is_proved(attempt, post.offer):
            await self._verification.take(attempt, shown=post.case.offer_digest)
            return self._replies.go(post.case.id)
        url = self._build_url(attempt)
        if request.headers.get("sec-fetch-dest", "document") == "document":
            return RedirectResponse(url, status_code=303, headers=HEADERS)
        # A script reads this reply, and cannot see where a redirect leads.
        return HTMLResponse(f'<a data-continue href="{url}">…</a>', headers=HEADERS)

    @pages.get("/review/{case_id}/verify/{attempt_id}", "showVerification")
    async def show(self, request: Request) -> Response:
        """Show what proofs the answer needs. Changes nothing."""
        case, offer = await self._desk.get_case_and_offer(request.path_params["case_id"])
        session = await self._access.require_session(request, case)
        try:
            attempt = await self._load(request, case, session)
        except CaseNotFound:
            return self._replies.go(case.id)
        return await self._show(request, case, offer, session, attempt)

    @pages.post("/review/{case_id}/verify/{attempt_id}", "verifyAnswer")
    async def verify(self, request: Request) -> Response:
        """Take a proof; once all are given, record the answer."""
        post = await self._access.read_post(request)
        try:
            attempt = await self._load(request, post.case, post.session)
        except CaseNotFound:
            return self._replies.go(post.case.id)
        address = self._find_address(request)
        try:
            attempt = await self._act(attempt, post, address)
            if not self._verification.is_proved(attempt, post.offer):
                return RedirectResponse(self._build_url(attempt), status_code=303, headers=HEADERS)
            await self._verification.take(attempt, shown=post.case.offer_digest)
        except (VerificationFailed, Unavailable, CaseConflict) as error:
            return await self._show_problem(request, post, error)
        return self._replies.go(post.case.id)

    async def _act(
        self, attempt: VerificationAttempt, post: PagePost, address: str | None
    ) -> VerificationAttempt:
        do = post.value("do") or ""
        typed = {name: post.value(name) or "" for name in TYPED}
        if do == "take":
            return attempt
        if do == "check":
            return await self._verification.check_automatic(attempt, post.offer, address)
        given = ProofInput(method=do.removeprefix(START), typed=typed, address=address)
        if do.startswith(START):
            return await self._verification.start(attempt, post.offer, given)
        return await self._verification.finish(attempt, post.offer, given)

    async def _show_problem(
        self, request: Request, post: PagePost, error: VerificationFailed | Unavailable | CaseConflict
    ) -> Response:
        """Show the page again with what went wrong; without the attempt, the error itself is shown."""
        try:
            attempt = await self._load(request, post.case, post.session)
        except CaseNotFound:
            raise error from None
        return await self._show(
            request, post.case, post.offer, post.session, attempt, problem=error.message, status=error.status
        )

    async def _load(self, request: Request, case: Case, session: CaseSession) -> VerificationAttempt:
        if not case.live:
            raise CaseNotFound()
        return await self._verification.load(case.id, request.path_params["attempt_id"], session.actor)

    async def _show(
        self,
        request: Request,
        case: Case,
        offer: Offer,
        session: CaseSession,
        attempt: VerificationAttempt,
        *,
        problem: str | None = None,
        status: int = 200,
    ) -> Response:
        language = self._replies.languages.of(request)
        view = VerificationView(
            asker=describe_asker(case, offer, service_name=self._desk.service_name),
            type=offer.type,
            prompt=offer.prompt,
            action=attempt.action,
            label=read_action_labels(offer.context).get(attempt.action),
            recap=await build_recap(self._load_type, _as_decided(case, attempt), offer),
            alternatives=tuple(
                tuple(
                    MethodView(name=one.name, kind=one.name.partition(":")[0], shown=one.shown)
                    for one in methods
                )
                for methods in self._verification.list_alternatives(attempt, offer)
            ),
            given=len(attempt.proofs),
            is_proved=self._verification.is_proved(attempt, offer),
            ends_at=attempt.expires_at,
            now=self._desk.now(),
            csrf=session.csrf,
            verify_url=self._build_url(attempt),
            back_url=self._replies.address(case.id),
            static_url=self._replies.static_url,
            problem=problem,
            language=language,
            page_url=self._build_url(attempt),
        )
        return self._replies.page(self._renderer.render_verification(view), status=status, language=language)

    def _build_url(self, attempt: VerificationAttempt) -> str:
        return f"{self._replies.address(attempt.case_id)}/verify/{attempt.id}"


def _as_decided(case: Case, attempt: VerificationAttempt) -> Case:
    """Return the case as if the answer had been taken, to show the answer as the closed page would."""
    entered = {name: value for name, value in attempt.data.items() if value not in (None, "", [], {})}
    decision = Decision(
        result=Result(action=attempt.action, data=entered),
        submission=SubmissionContext(mode="browser_submit"),
    )
    return replace(case, decision=decision)
