"""Review pages in a frame of another site, such as a chat client: who may show them, and in which session.

A page in a frame has a session of its own. What the site around it can cover or move, it can make a person
press (clickjacking), so decisions of high risk need the page itself, outside of the frame.
"""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from placet.server.page_cookies import is_in_frame

POLICY, FRAME_OPTIONS = "content-security-policy", "x-frame-options"
NOBODY = "frame-ancestors 'none'"


class PageFrames:
    """Says which sites may show review pages in a frame."""

    def __init__(self, ancestors: Sequence[str] = ()) -> None:
        self._ancestors = " ".join(ancestors)

    def is_framed(self, request: Request) -> bool:
        """Whether the browser loads this page into a frame, and some site may show it so."""
        return bool(self._ancestors) and is_in_frame(request)

    def open(self, response: Response) -> None:
        """Let the sites show this page. Browsers that know the policy ignore the older header anyway."""
        if not self._ancestors or POLICY not in response.headers:
            return
        allowed = response.headers[POLICY].replace(NOBODY, f"frame-ancestors {self._ancestors}")
        response.headers[POLICY] = allowed
        if FRAME_OPTIONS in response.headers:
            del response.headers[FRAME_OPTIONS]
