"""The page at the address of the server itself: what runs here, for whoever opens it in a browser."""

from starlette.requests import Request
from starlette.responses import Response

from placet.errors import CaseNotFound
from placet.http.error_replies import NOTHING_HERE
from placet.http.route import HttpApi, pages
from placet.pages.renderer import PageRenderer
from placet.pages.view import HomeView
from placet.server.page_replies import HEADERS, PageReplies


class FrontPage(HttpApi):
    """Says where to go, and nothing that is not public anyway; for programs there is nothing here."""

    def __init__(self, *, renderer: PageRenderer, replies: PageReplies) -> None:
        self._renderer = renderer
        self._replies = replies

    @pages.get("/", "showFrontPage")
    async def show(self, request: Request) -> Response:
        """The page; raises CaseNotFound for callers that do not ask for pages."""
        if "text/html" not in request.headers.get("accept", "").lower():
            raise CaseNotFound(NOTHING_HERE)
        language = self._replies.languages.of(request)
        view = HomeView(
            static_url=self._replies.static_url,
            docs_url=f"{self._replies.prefix}/docs",
            inbox_url=self._replies.inbox_address,
            language=language,
            page_url=f"{self._replies.prefix}/",
        )
        response = self._replies.page(self._renderer.home(view), language=language)
        response.headers["vary"] = f"Accept, {HEADERS['vary']}"
        return self._replies.finished(request, response)
