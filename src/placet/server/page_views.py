"""Build the responses for the pages of a case: collect each page's data and render it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from placet.cases.call_receipt import CallExecution
from placet.cases.case import Case, Offer
from placet.desk import random_values
from placet.desk.asker import describe_asker
from placet.desk.hand_back import ends_case
from placet.desk.review_desk import ReviewDesk
from placet.errors import BadRequest
from placet.pages.decided import describe_decided
from placet.pages.language import Language
from placet.pages.renderer import PageRenderer
from placet.pages.view import (
    ClosedView,
    DecidedContent,
    GivenGrant,
    MessageView,
    PassOnView,
    ReviewView,
    drop_undo_fields,
    undo_from_context,
)
from placet.reviews.form_post import PostResult
from placet.reviews.review_type import ReviewType
from placet.server.case_sessions import CaseSession
from placet.server.earlier_rounds import build_recap, load_earlier_rounds
from placet.server.page_replies import PageReplies
from placet.server.page_requests import PagePost


class FormState(Struct, frozen=True, kw_only=True):
    """The state of a form on a page: its values, step, problems and notice."""

    values: Mapping[str, Any] = {}
    step: int = 0
    problems: Mapping[str, str] = {}
    notes: Mapping[str, str] = {}
    notice: str | None = None
    idempotency_key: str | None = None


class PageViews:
    """Builds every page of a case."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        renderer: PageRenderer,
        load_type: Callable[[Offer], ReviewType],
        replies: PageReplies,
        make_ticket: Callable[[Case, CaseSession], str],
    ) -> None:
        self._desk = desk
        self._renderer = renderer
        self._load_type = load_type
        self._replies = replies
        self._make_ticket = make_ticket

    def _find_way_out(self, case: Case, offer: Offer, session: CaseSession) -> str | None:
        """Return where the case is decided outside of the frame, if it is not decided in it."""
        if not session.is_framed or not self._load_type(offer).is_high_risk(offer):
            return None
        return f"{self._replies.address(case.id)}?ticket={self._make_ticket(case, session)}"

    async def show_open(
        self,
        case: Case,
        offer: Offer,
        session: CaseSession,
        filled: FormState,
        language: Language,
        *,
        status: int = 200,
    ) -> Response:
        """Return the page with the question and the form to answer it."""
        rules = self._load_type(offer)
        page = self._replies.address(case.id)
        rounds = await load_earlier_rounds(self._desk, self._load_type, case, offer)
        await asyncio.sleep(0)  # reading a large case may have taken long: let other requests run
        view = ReviewView(
            case=case,
            offer=offer,
            asker=describe_asker(case, offer, service_name=self._desk.service_name),
            template=rules.template,
            substance=rules.build_page_content(
                replace(offer, context=drop_undo_fields(offer.context)), filled.values
            ),
            now=self._desk.now(),
            csrf=session.csrf,
            idempotency_key=filled.idempotency_key or random_values.generate_token(),
            static_url=self._replies.static_url,
            respond_url=f"{page}/respond",
            outside_url=self._find_way_out(case, offer, session),
            hand_back_url=f"{page}/hand-back",
            ends_when_handed_back=ends_case(case, offer, session.actor),
            actor=session.actor,
            pass_on_url=f"{page}/pass-on",
            opened_url=f"{page}/opened",
            draft_url=f"{page}/draft",
            language_url=f"{page}/language",
            step=filled.step,
            values=dict(filled.values),
            problems=dict(filled.problems),
            notes=dict(filled.notes),
            notice=filled.notice,
            rounds=rounds,
            language=language,
            page_url=page,
            events_url=f"{page}/events",
            undo=undo_from_context(offer.context),
            inbox_url=self._replies.inbox_address if session.key_name else None,
        )
        return await self._replies.render_page(
            self._renderer.render_review(view), status=status, language=language
        )

    async def show_again(
        self,
        post: PagePost,
        turn: PostResult,
        language: Language,
        *,
        status: int,
        error: BadRequest | None = None,
    ) -> Response:
        """Return the page again with the submitted values and their problems."""
        problems = dict(turn.problems)
        if error is not None:
            problems |= error.details.get("fields") or {"": error.message}
        filled = FormState(
            values=turn.values,
            step=turn.step,
            problems=problems,
            notes=post.notes,
            notice="more_asked" if turn.more_asked else None,
            idempotency_key=post.value("idempotency_key"),
        )
        return await self.show_open(post.case, post.offer, post.session, filled, language, status=status)

    async def show_closed(
        self,
        case: Case,
        offer: Offer | None,
        language: Language,
        *,
        session: CaseSession | None = None,
        status: int = 200,
    ) -> Response:
        """Return the page of a closed case; `offer` is None if its content was erased."""
        page = self._replies.address(case.id)
        view = ClosedView(
            case=case,
            offer=offer,
            decided=self._describe_decided(case, offer),
            asker=describe_asker(case, offer, service_name=self._desk.service_name),
            now=self._desk.now(),
            static_url=self._replies.static_url,
            recap=await build_recap(self._load_type, case, offer) if offer else (),
            outcome=self._describe_outcome(case, offer),
            grants=await self._list_grants(case),
            executions=self._list_executions(case, offer),
            revoke_url=f"{page}/revoke" if session else None,
            csrf=session.csrf if session else "",
            rounds=await load_earlier_rounds(self._desk, self._load_type, case, offer) if offer else (),
            language=language,
            page_url=page,
            inbox_url=self._replies.inbox_address if session and session.key_name else None,
        )
        return await self._replies.render_page(
            self._renderer.render_closed_case(view), status=status, language=language
        )

    def _describe_decided(self, case: Case, offer: Offer | None) -> DecidedContent | None:
        if offer is None:
            return None
        action = case.decision.result.action if case.decision else None
        return describe_decided(self._load_type(offer), offer, action)

    async def _list_grants(self, case: Case) -> tuple[GivenGrant, ...]:
        if case.decision is None or not case.decision.result.data.get("grants"):
            return ()
        now, found = self._desk.now(), await self._desk.store.list_grants_of_case(case.id)
        return tuple(
            GivenGrant(
                id=grant.id,
                tool=grant.tool,
                uses=grant.uses,
                uses_left=grant.uses_left,
                expires_at=grant.expires_at,
                state=grant.state(now),
            )
            for grant in reversed(found)
        )

    def _list_executions(self, case: Case, offer: Offer | None) -> tuple[CallExecution, ...]:
        if offer is None:
            return ()
        data = case.decision.result.data if case.decision else {}
        return self._load_type(offer).list_executions(offer, data, case.receipts)

    def _describe_outcome(self, case: Case, offer: Offer | None) -> str | None:
        action = case.decision.result.action if case.decision else None
        return self._load_type(offer).find_outcome(offer, action) if offer and action else action

    def show_pass_on(self, case: Case, link: str, language: Language) -> Response:
        """Return the page with a new link for a colleague."""
        view = PassOnView(
            link=link,
            review_url=self._replies.address(case.id),
            expires_at=case.expires_at,
            now=self._desk.now(),
            static_url=self._replies.static_url,
            language=language,
        )
        return self._replies.page(self._renderer.render_pass_on(view), language=language)

    def show_message(
        self, name: str, status: int, case_id: str, language: Language, *, from_inbox: bool = False
    ) -> Response:
        """Return a page with one message and the next step."""
        view = MessageView(
            name=name,
            static_url=self._replies.static_url,
            review_url=self._replies.address(case_id),
            language=language,
            page_url=self._replies.address(case_id),
            inbox_url=self._replies.inbox_address if from_inbox else None,
        )
        return self._replies.page(self._renderer.render_message(view), status=status, language=language)
