"""The home page: what runs at this address, for people who open it in a browser."""

from starlette.requests import Request
from starlette.responses import Response

from placet.errors import CaseNotFound
from placet.http.error_replies import NOTHING_HERE
from placet.http.route import HttpApi, pages
from placet.pages.renderer import PageRenderer
from placet.pages.view import HomeView
from placet.protocol.service_paths import DOCS
from placet.server.page_replies import HEADERS, PageReplies


class HomePage(HttpApi):
    """Serves links to the inbox and the API docs to browsers, and 404 to programs."""

    def __init__(self, *, renderer: PageRenderer, replies: PageReplies) -> None:
        self._renderer = renderer
        self._replies = replies

    @pages.get("/", "showFrontPage")
    async def show(self, request: Request) -> Response:
        """Show the page; raise CaseNotFound if the client does not accept HTML."""
        if "text/html" not in request.headers.get("accept", "").lower():
            raise CaseNotFound(NOTHING_HERE)
        language = self._replies.languages.of(request)
        view = HomeView(
            static_url=self._replies.static_url,
            docs_url=f"{self._replies.prefix}{DOCS}",
            inbox_url=self._replies.inbox_address,
            language=language,
            page_url=f"{self._replies.prefix}/",
        )
        response = self._replies.page(self._renderer.render_home(view), language=language)
        response.headers["vary"] = f"Accept, {HEADERS['vary']}"
        return self._replies.finish(request, response)
