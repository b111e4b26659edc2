"""How pages leave the server: with headers that keep them private, and with one cookie per case."""

import asyncio
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from assent.desk.addresses import Addresses
from assent.pages.assets import fingerprint, scripts_for
from assent.pages.language import ENGLISH, Language
from assent.pages.look import Look, plain_look
from assent.server.page_language import LANGUAGE_COOKIE, PageLanguages
from assent.server.sessions import COOKIE, LAST_FOR

# Ruling 11: nothing from elsewhere, nothing stored, nothing told to other sites.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "vary": "Accept-Language, Cookie",
}
REMEMBER_LANGUAGE_S = 365 * 24 * 3600
A_TURN = 16 * 1024  # so much of a page is drawn before others have their turn


class PageReplies:
    """Makes the HTTP responses of pages."""

    def __init__(self, addresses: Addresses, look: Look | None = None) -> None:
        base = urlsplit(addresses.base)
        worn = look or plain_look()
        self._secure = base.scheme == "https"
        self.prefix = base.path
        self.static_url = f"{self.prefix}/static/{fingerprint(worn.files)}"
        self.languages = PageLanguages(worn.languages)

    def address(self, case_id: str) -> str:
        """The path of a case's page."""
        return f"{self.prefix}/review/{case_id}"

    async def drawn(
        self, parts: Iterable[str], *, status: int = 200, language: Language = ENGLISH
    ) -> Response:
        """A page of any length; while it is drawn, others have their turn."""
        pieces, since = [], 0
        for part in parts:
            pieces.append(part)
            since += len(part)
            if since >= A_TURN:
                since = 0
                await asyncio.sleep(0)
        return self.page("".join(pieces), status=status, language=language)

    def page(self, html: str, *, status: int = 200, language: Language = ENGLISH) -> Response:
        """A page, naming every script it will use: none is asked for only once another has arrived."""
        scripts = [
            f'<script type="module" src="{self.static_url}/{name}"></script>' for name in scripts_for(html)
        ]
        whole = html.replace("</head>", "\n".join([*scripts, "</head>"]), 1)
        return HTMLResponse(whole, status_code=status, headers={**HEADERS, "content-language": language.code})

    def remember_language(self, request: Request, response: Response) -> Response:
        """The same response, keeping the language that its request chose."""
        chosen = self.languages.chosen(request)
        if chosen is not None:
            response.set_cookie(
                LANGUAGE_COOKIE,
                chosen,
                max_age=REMEMBER_LANGUAGE_S,
                path=f"{self.prefix}/",
                secure=self._secure,
                httponly=True,
                samesite="lax",
            )
        return response

    def go(self, case_id: str, step: int | None = None) -> Response:
        """On to the case's page, by GET; each step has an address, so that the browser's Back finds it."""
        address = self.address(case_id) if step is None else f"{self.address(case_id)}?step={step}"
        return RedirectResponse(address, status_code=303, headers=HEADERS)

    def enter(self, case_id: str, cookie: str, step: int | None = None) -> Response:
        """On to the page without the token, with a session for this case alone."""
        response = self.go(case_id, step)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(LAST_FOR.total_seconds()),
            path=self.address(case_id),
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )
        return response

    def done(self) -> Response:
        """Nothing to show."""
        return Response(status_code=204, headers=HEADERS)
