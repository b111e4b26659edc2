"""Build the responses of pages: private headers, and one session cookie per case."""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from placet.desk.case_urls import CaseUrls
from placet.pages.assets import PageScripts, digest_files
from placet.pages.language import ENGLISH, Language
from placet.pages.theme import Theme, load_built_in_theme
from placet.protocol.service_paths import INBOX, REVIEW_PAGES, STATIC
from placet.server.case_sessions import SESSION_LIFETIME
from placet.server.page_cookies import PageCookies, is_own_page_load
from placet.server.page_frames import PageFrames
from placet.server.page_language import PageLanguages
from placet.server.page_style import StylesheetInliner

# Ruling 11: load nothing from other sites, store nothing, send no referrer.
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
REMEMBER_S = 365 * 24 * 3600
RENDER_SLICE_S = 0.001  # rendering pauses for other requests after this time
LONG_PART = 4096


class PageReplies:
    """Builds the HTTP responses of pages."""

    def __init__(
        self, addresses: CaseUrls, theme: Theme | None = None, frame_ancestors: Sequence[str] = ()
    ) -> None:
        base = urlsplit(addresses.base)
        chosen = theme or load_built_in_theme()
        self.origin = f"{base.scheme}://{base.netloc}"
        self.cookies = PageCookies(addresses.base)
        self.frames = PageFrames(frame_ancestors)
        self.prefix = base.path
        self.inbox_address = f"{self.prefix}{INBOX}"
        self.static_url = f"{self.prefix}{STATIC}/{digest_files(chosen.files)}"
        self.languages = PageLanguages(chosen.languages, self.cookies.language)
        self._style = StylesheetInliner(self.static_url, chosen.files, self.cookies.style)

    def address(self, case_id: str) -> str:
        """Return the path of a case's page."""
        return f"{self.prefix}{REVIEW_PAGES}/{case_id}"

    async def render_page(
        self, parts: Iterable[str], *, status: int = 200, language: Language = ENGLISH
    ) -> Response:
        """Return a page of any length; other requests run while it is rendered."""
        await asyncio.sleep(0)
        page, pieces, last = _Page(self.static_url), list[str](), monotonic()
        for part in parts:
            pieces.append(part)
            if monotonic() - last > RENDER_SLICE_S:
                page.add(pieces)
                pieces.clear()
                await asyncio.sleep(0)
                last = monotonic()
        page.add(pieces)
        return page.reply(status, language)

    def page(self, html: str, *, status: int = 200, language: Language = ENGLISH) -> Response:
        """Return a page that is already rendered."""
        page = _Page(self.static_url)
        page.add(html.splitlines(keepends=True))
        return page.reply(status, language)

    def finish(self, request: Request, response: Response) -> Response:
        """Inline the stylesheet if the browser has not cached it, and store the language a person chose."""
        if self._style.put_into(response, request):
            self.cookies.set(response, self.cookies.style, self._style.version, max_age=REMEMBER_S)
        chosen = self.languages.read_choice(request)
        if chosen is not None and is_own_page_load(request):
            self.cookies.set(response, self.cookies.language, chosen, max_age=REMEMBER_S)
        return response

    def go(self, case_id: str, step: int | None = None) -> Response:
        """Redirect to the case's page; each step has a URL, so that the browser's Back button works."""
        address = self.address(case_id) if step is None else f"{self.address(case_id)}?step={step}"
        return RedirectResponse(address, status_code=303, headers=HEADERS)

    def enter(self, request: Request, case_id: str, cookie: str, step: int | None = None) -> Response:
        """Redirect to the page without the token, and set the session cookie of this case."""
        response = self.go(case_id, step)
        if self.frames.is_framed(request):
            lifetime = int(SESSION_LIFETIME.total_seconds())
            self.cookies.set_frame(response, case_id, cookie, lifetime)
            return response
        self.cookies.set_case(request, response, case_id, cookie, int(SESSION_LIFETIME.total_seconds()))
        return response

    def build_empty_reply(self) -> Response:
        """Return an empty 204 response."""
        return Response(status_code=204, headers=HEADERS)


class _Page:
    """Collects a page; its head lists every script it uses, so that the browser fetches them early."""

    def __init__(self, static_url: str) -> None:
        self._static_url = static_url
        self._scripts = PageScripts()
        self._head: list[bytes] = []
        self._body: list[bytes] = []

    def add(self, parts: list[str]) -> None:
        """Add parts; long parts are content, which is not searched for scripts."""
        html = "".join(parts)
        self._scripts.read("".join([part for part in parts if len(part) < LONG_PART]))
        if self._body:
            self._body.append(html.encode())
            return
        head, end, body = html.partition("</head>")
        self._head.append(head.encode())
        if end:
            self._body.append(f"{end}{body}".encode())

    def reply(self, status: int, language: Language) -> Response:
        """Return the response."""
        names = self._scripts.names if self._body else []
        scripts = [f'<script type="module" src="{self._static_url}/{name}"></script>\n' for name in names]
        whole = b"".join([*self._head, "".join(scripts).encode(), *self._body])
        return HTMLResponse(whole, status_code=status, headers={**HEADERS, "content-language": language.code})
