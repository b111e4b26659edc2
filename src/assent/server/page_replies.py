"""How pages leave the server: with headers that keep them private, and with one cookie per case."""

from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response

from assent.desk.addresses import Addresses
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
}


class PageReplies:
    """Makes the HTTP responses of pages."""

    def __init__(self, addresses: Addresses) -> None:
        base = urlsplit(addresses.base)
        self._secure = base.scheme == "https"
        self.prefix = base.path
        self.static_url = f"{self.prefix}/static"

    def address(self, case_id: str) -> str:
        """The path of a case's page."""
        return f"{self.prefix}/review/{case_id}"

    def page(self, html: str, *, status: int = 200) -> Response:
        """A page."""
        return HTMLResponse(html, status_code=status, headers=HEADERS)

    def go(self, case_id: str) -> Response:
        """On to the case's page, by GET."""
        return RedirectResponse(self.address(case_id), status_code=303, headers=HEADERS)

    def enter(self, case_id: str, cookie: str) -> Response:
        """On to the page without the token, with a session for this case alone."""
        response = self.go(case_id)
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
