"""Check requests from pages: find the session behind a request and read the form it posted."""

from urllib.parse import parse_qsl

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request

from placet.cases.case import Case, Offer
from placet.desk.access import require_review_token
from placet.desk.review_desk import ReviewDesk
from placet.errors import InvalidSubmission, InvalidToken, SessionEnded
from placet.http.asgi import read_body
from placet.server.case_sessions import CaseSession, CaseSessions, Purpose
from placet.server.csrf import require_csrf_token, require_own_page
from placet.server.inbox_sessions import FROM_INBOX, InboxSessions
from placet.server.keyed_digests import is_same
from placet.server.page_replies import PageReplies

MAX_FIELDS = 2000
OWN_FIELDS = frozenset({"csrf", "action", "shown", "idempotency_key"})
NOTES = ("pass_on_note", "why", "hand_back_reason")
FormPairs = list[tuple[str, str]]


class PagePost(Struct, frozen=True, kw_only=True):
    """A form posted from one of our pages: its case, offer, session and fields."""

    case: Case
    offer: Offer
    session: CaseSession
    pairs: FormPairs

    def value(self, name: str) -> str | None:
        """Return the last value posted under this name."""
        return next((value for key, value in reversed(self.pairs) if key == name), None)

    @property
    def notes(self) -> dict[str, str]:
        """The texts entered for passing the case on or handing it back."""
        return {name: self.value(name) or "" for name in NOTES}

    @property
    def typed(self) -> FormPairs:
        """What the reviewer entered, without the form's own fields."""
        return [(name, value) for name, value in self.pairs if name not in OWN_FIELDS]


class PageAccess:
    """Admits reviewers who have a review link or come from the inbox."""

    def __init__(
        self,
        desk: ReviewDesk,
        sessions: CaseSessions,
        replies: PageReplies,
        inbox: InboxSessions | None = None,
    ) -> None:
        self._desk = desk
        self._sessions = sessions
        self._replies = replies
        self._inbox = inbox

    def begin_session(self, request: Request, case: Case, link: str) -> str:
        """Return the session cookie that replaces this review link, for the page or for its frame."""
        purpose: Purpose = "frame" if self._replies.frames.is_framed(request) else "session"
        return self._sessions.begin(case.id, link, self._desk.now(), purpose)

    def make_ticket(self, case: Case, session: CaseSession) -> str:
        """Return a ticket with which the person goes on outside of the frame."""
        return self._sessions.begin(case.id, session.link, self._desk.now(), "ticket")

    def admit_ticket(self, case: Case, ticket: str) -> str:
        """Return the link that a ticket stands for; raise SessionEnded if it is not valid."""
        session = self._sessions.read(case, ticket, self._desk.now(), "ticket")
        if session is None:
            raise SessionEnded()
        return session.link

    async def require_session(self, request: Request, case: Case) -> CaseSession:
        """Return the request's session for this case; raise SessionEnded if there is none."""
        if self._replies.frames.is_framed(request):
            session = self._read_frame_session(request, case)
            if session is None:
                raise SessionEnded()
            return session
        cookie = self._read_case_cookie(request)
        if self.came_from_inbox(request) and self._inbox is not None:
            signed_in = request.cookies.get(self._replies.cookies.inbox)
            session = await self._inbox.find_case_session(case, cookie or "", signed_in)
        else:
            session = self._sessions.read(case, cookie, self._desk.now())
        if session is None and request.headers.get("sec-fetch-dest") == "empty":  # a script in a frame
            session = self._read_frame_session(request, case)
        if session is None:
            raise SessionEnded()
        return session

    def _read_frame_session(self, request: Request, case: Case) -> CaseSession | None:
        cookie = request.cookies.get(self._replies.cookies.frame(case.id))
        return self._sessions.read(case, cookie, self._desk.now(), "frame")

    async def find_erased_case(self, request: Request, token: str | None) -> Case | None:
        """Return the requested case if its content was erased and the request has access to it."""
        case = await self._desk.store.get_case(request.path_params["case_id"])
        if case is None or case.erased_at is None:
            return None
        try:
            if token is not None:
                require_review_token(case, token)
            else:
                await self.require_session(request, case)
        except InvalidToken:
            return None
        return case

    async def read_post(self, request: Request) -> PagePost:
        """Return the form that one of our pages posted; raise SessionEnded for any other sender.

        Anyone with the link can compute the CSRF token of its forms, so Sec-Fetch-Site is checked first.
        """
        require_own_page(request, self._replies.origin)
        case, offer = await self._desk.get_case_and_offer(request.path_params["case_id"])
        session = await self.require_session(request, case)
        body = await read_body(request.scope, request.receive, limit=self._desk.limits.max_body_bytes)
        if session.key_name is not None:  # the key may have been revoked while the body arrived
            session = await self.require_session(request, case)
        post = PagePost(case=case, offer=offer, session=session, pairs=read_form(body))
        framed = self._read_frame_session(request, case)
        if framed is not None and is_same(post.value("csrf") or "", framed.csrf):
            return replace(post, session=framed)  # the form was in a frame, whatever else the browser sends
        require_csrf_token(session, post.value("csrf"))
        return post

    def came_from_inbox(self, request: Request) -> bool:
        """Whether the cookie says that this page was opened from the inbox."""
        return (self._read_case_cookie(request) or "").startswith(FROM_INBOX)

    def _read_case_cookie(self, request: Request) -> str | None:
        return request.cookies.get(self._replies.cookies.case(request.path_params.get("case_id", "")))


def read_form(body: bytes) -> FormPairs:
    """Return the name and value pairs of a posted form; raise InvalidSubmission if it cannot be read."""
    try:
        return parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
            errors="replace",
        )
    except ValueError as error:
        raise InvalidSubmission("The form could not be read.") from error
