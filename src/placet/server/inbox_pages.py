"""Serve the inbox: sign in, list the open cases, open one. GET changes nothing (ruling 4)."""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.desk.review_desk import ReviewDesk
from placet.errors import (
    BodyTooLarge,
    CaseExpired,
    CaseNotFound,
    ContentAltered,
    InvalidSubmission,
    InvalidToken,
    NotPermitted,
    PlacetError,
    RateLimited,
    SessionEnded,
    Unavailable,
    ValidationFailed,
)
from placet.http.asgi import ClientDisconnected, read_body
from placet.http.error_replies import describe_error
from placet.http.route import HttpApi, pages
from placet.pages.assets import read_notification_worker
from placet.pages.renderer import PageRenderer
from placet.pages.view import InboxView, MessageView, SignInView
from placet.server.case_sessions import SESSION_LIFETIME
from placet.server.csrf import require_csrf_token, require_own_page
from placet.server.inbox_list import TYPE_NAMES, InboxList, InboxPage, InboxQuery, read_query, write_cursor
from placet.server.inbox_sessions import InboxSessions, InboxVisitor
from placet.server.page_replies import HEADERS, PageReplies
from placet.server.page_requests import FormPairs, read_form
from placet.server.poll_limiter import PollLimiter

SIGN_INS_PER_MINUTE = 60
MAX_FORM_BYTES = 10_000

PageHandler = Callable[[Request], Awaitable[Response]]


class PushSubscriptions(Protocol):
    """Stores the browsers in which people turn on notifications."""

    @property
    def public_key(self) -> str:
        """The key that browsers subscribe with, as base64url."""
        ...

    async def subscribe(self, owner: str, *, endpoint: str, p256dh: str, auth: str) -> None:
        """Store a browser of this person. Raises ValidationFailed for one that is not valid."""
        ...

    async def unsubscribe(self, owner: str, endpoint: str) -> None:
        """Forget a browser of this person."""
        ...


class InboxPages(HttpApi):
    """Serves the inbox to people who have an inbox key."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        sessions: InboxSessions,
        renderer: PageRenderer,
        replies: PageReplies,
        monotonic: Callable[[], float],
        push: PushSubscriptions | None = None,
    ) -> None:
        """`push` stores the browsers in which people turn on notifications; None if there are none."""
        self._push = push
        self._desk = desk
        self._sessions = sessions
        self._renderer = renderer
        self._replies = replies
        self._list = InboxList(desk)
        self._sign_ins = PollLimiter(per_minute=SIGN_INS_PER_MINUTE, monotonic=monotonic)
        self._address = replies.inbox_address
        self._cookie = replies.cookies.inbox

    @pages.get("/inbox", "showInbox")
    async def show(self, request: Request) -> Response:
        """Show the list, or the sign-in page without a session."""
        visitor = await self._sessions.find_visitor(request.cookies.get(self._cookie))
        if visitor is None:
            return self._sign_in_page(request)
        asked = read_query(request.query_params)
        listed = await self._list.page(visitor.scope, asked)
        return self._list_page(request, visitor, asked, listed)

    @pages.post("/inbox/sign-in", "signIn")
    async def sign_in(self, request: Request) -> Response:
        """Exchange a key for a session; the key itself is not stored."""
        address = request.client.host if request.client else ""
        try:  # a form that signs somebody in has no session yet, and so no CSRF token
            require_own_page(request, self._replies.origin, named=True)
        except SessionEnded:
            self._sessions.log_failure("foreign_site", address)
            raise
        key = _read_value(await self._read_form(request), "key").strip()
        previous = request.cookies.get(self._cookie)
        try:
            cookie = await self._sessions.sign_in(key, address=address, previous=previous)
        except (InvalidToken, NotPermitted) as error:
            # Only failed attempts count: behind a proxy, all people share one address.
            self._sign_ins.spend(None, address)
            problem = "other_key" if isinstance(error, NotPermitted) else "wrong_key" if key else "no_key"
            return self._sign_in_page(request, problem=problem, status=error.status)
        response = self._go()
        self._set_cookie(response, cookie, max_age=int(SESSION_LIFETIME.total_seconds()))
        return response

    @pages.post("/inbox/sign-out", "signOut")
    async def sign_out(self, request: Request) -> Response:
        """End the session, and with it the pages opened from the inbox, also for copies of its cookies."""
        visitor, _ = await self._find_visitor(request)
        await self._sessions.sign_out(visitor)
        response = self._go()
        self._set_cookie(response, "", max_age=0)
        return response

    @pages.post("/inbox/notifications", "turnOnNotifications")
    async def change_notifications(self, request: Request) -> Response:
        """Notify the person in this browser from now on, or no longer."""
        visitor, pairs = await self._find_visitor(request)
        if self._push is None:
            raise CaseNotFound()
        endpoint = _read_value(pairs, "endpoint")
        if _read_value(pairs, "off"):
            await self._push.unsubscribe(visitor.name, endpoint)
        else:
            p256dh, auth = _read_value(pairs, "p256dh"), _read_value(pairs, "auth")
            await self._push.subscribe(visitor.name, endpoint=endpoint, p256dh=p256dh, auth=auth)
        return Response(status_code=204, headers=HEADERS)

    @pages.get("/inbox/worker.js", "readNotificationWorker")
    async def read_worker(self, request: Request) -> Response:
        """Return the script that shows notifications while no page is open."""
        headers = {**HEADERS, "content-type": "text/javascript; charset=utf-8"}
        return Response(read_notification_worker(), headers=headers)

    @pages.post("/inbox/open", "openFromInbox")
    async def open(self, request: Request) -> Response:
        """Open the page of a case; the event log records who opened it."""
        visitor, pairs = await self._find_visitor(request)
        case, _ = await self._desk.get_case_and_offer(_read_value(pairs, "case"))
        if not visitor.scope.sees(case.owner):
            raise CaseNotFound()
        with suppress(CaseExpired):  # its page says so
            await self._desk.view(case.id, actor=f"key:{visitor.name}")
        return self._replies.enter(request, case.id, self._sessions.admit(visitor, case.id))

    @pages.get("/inbox/{rest:path}", "redirectToInbox")
    async def redirect(self, request: Request) -> Response:
        """Redirect from a form's address to the list."""
        return self._go()

    # Sessions

    async def _find_visitor(self, request: Request) -> tuple[InboxVisitor, FormPairs]:
        """Return who posted a form of the inbox and its fields; raise SessionEnded for any other sender."""
        require_own_page(request, self._replies.origin)
        pairs = await self._read_form(request)  # read before the key is checked, because this may take long
        visitor = await self._sessions.find_visitor(request.cookies.get(self._cookie))
        if visitor is None:
            raise SessionEnded()
        require_csrf_token(visitor, _read_value(pairs, "csrf"))
        return visitor, pairs

    async def _read_form(self, request: Request) -> FormPairs:
        return read_form(await read_body(request.scope, request.receive, limit=MAX_FORM_BYTES))

    def _set_cookie(self, response: Response, cookie: str, *, max_age: int) -> None:
        self._replies.cookies.set(response, self._cookie, cookie, max_age=max_age, samesite="strict")

    # Pages

    def _sign_in_page(self, request: Request, *, problem: str | None = None, status: int = 200) -> Response:
        language = self._replies.languages.of(request)
        view = SignInView(
            static_url=self._replies.static_url,
            sign_in_url=f"{self._address}/sign-in",
            problem=problem,
            # Browsers do not send a strict cookie when another site links here; a reload sends it.
            look_again=request.headers.get("sec-fetch-site") == "cross-site",
            language=language,
            page_url=self._address,
        )
        return self._replies.page(self._renderer.render_sign_in(view), status=status, language=language)

    def _list_page(
        self, request: Request, visitor: InboxVisitor, asked: InboxQuery, listed: InboxPage
    ) -> Response:
        language = self._replies.languages.of(request)
        state = hashlib.sha256(f"{visitor.csrf}\n{language.code}\n{listed.versions}".encode()).hexdigest()
        headers = {"etag": f'"{state[:32]}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers={**HEADERS, **headers})
        view = InboxView(
            static_url=self._replies.static_url,
            name=visitor.name,
            rows=listed.rows,
            types=TYPE_NAMES,
            decided=asked.decided,
            type=asked.type,
            words=asked.words,
            later=asked.after is not None,
            next_url=self._build_url(asked, after=write_cursor(listed.next)) if listed.next else None,
            first_url=self._build_url(asked),
            waiting_url=self._address,
            decided_url=f"{self._address}?show=decided",
            open_url=f"{self._address}/open",
            sign_out_url=f"{self._address}/sign-out",
            push_key=self._push.public_key if self._push is not None else None,
            push_url=f"{self._address}/notifications",
            worker_url=f"{self._address}/worker.js",
            csrf=visitor.csrf,
            state=headers["etag"],
            now=self._desk.now(),
            language=language,
            page_url=self._address,
        )
        response = self._replies.page(self._renderer.render_inbox(view), language=language)
        response.headers.update(headers)
        return response

    def _build_url(self, asked: InboxQuery, **more: str) -> str:
        parameters = {
            "show": "decided" if asked.decided else "",
            "type": asked.type,
            "words": asked.words,
            **more,
        }
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"{self._address}?{query}" if query else self._address

    def _go(self) -> Response:
        return RedirectResponse(self._address, status_code=303, headers=HEADERS)

    # Errors

    def wrap_handler(self, handler: PageHandler) -> PageHandler:
        """Return a handler that shows errors as pages with one next step."""

        async def serve(request: Request) -> Response:
            try:
                response = await handler(request)
            except ClientDisconnected:
                raise
            except Exception as error:
                response = self._refuse(request, error)
            return self._replies.finish(request, response)

        return serve

    def _refuse(self, request: Request, error: Exception) -> Response:
        name = next((name for kind, name in MESSAGES if isinstance(error, kind)), "broken")
        status = error.status if isinstance(error, PlacetError) and name != "broken" else 500
        if name == "broken":
            describe_error(error)
        view = MessageView(
            name="broken" if name == "not_recorded" and request.method != "POST" else name,
            static_url=self._replies.static_url,
            language=self._replies.languages.of(request),
            page_url=self._address,
            inbox_url=self._address,
        )
        response = self._replies.page(
            self._renderer.render_message(view), status=status, language=view.language
        )
        if isinstance(error, RateLimited):
            response.headers["retry-after"] = str(error.details.get("retry_after", 1))
        return response


# The first match names the page. Other errors are our fault and are logged.
MESSAGES: tuple[tuple[type[PlacetError], str], ...] = (
    (SessionEnded, "signed_out"),
    (CaseNotFound, "not_found"),
    (BodyTooLarge, "unreadable"),
    (InvalidSubmission, "unreadable"),
    (ValidationFailed, "unreadable"),
    (RateLimited, "too_busy"),
    (ContentAltered, "altered"),
    (Unavailable, "not_recorded"),
)


def _read_value(pairs: FormPairs, name: str) -> str:
    """Return the last value posted under this name."""
    return next((value for key, value in reversed(pairs) if key == name), "")
