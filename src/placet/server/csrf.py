"""Protection against forms on other sites (CSRF): what the browser reports, and the token of each session."""

from typing import Protocol

from starlette.requests import Request

from placet.errors import SessionEnded
from placet.server.keyed_digests import is_same


class FormSession(Protocol):
    """A session whose pages put its CSRF token into every form."""

    @property
    def csrf(self) -> str:
        """The token, which other sites cannot know."""
        ...


def require_csrf_token(session: FormSession, presented: str | None) -> None:
    """Raise SessionEnded unless the form has the token of this session."""
    if not is_same(presented or "", session.csrf):
        raise SessionEnded()


def require_own_page(request: Request, origin: str, *, named: bool = False) -> None:
    """Raise SessionEnded if the browser reports that the form is on another site.

    Browsers that send no Sec-Fetch-Site are judged by Origin. Our pages send no referrer, so these browsers
    hide their origin as `null`, as those on other sites may. That is enough for a form with a CSRF token. A
    form without one needs a `named` origin. A client that sends neither header is not a browser.
    """
    site, sender = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        own = sender in (None, origin) or (sender == "null" and not named)
    if not own:
        raise SessionEnded()
