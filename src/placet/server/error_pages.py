"""Show errors outside of the pages' own routes as pages to browsers: an unknown address, a fault of ours."""

from starlette.requests import Request

from placet.errors import PlacetError
from placet.http.asgi import RawReply, Scope
from placet.http.error_replies import describe_error
from placet.pages.renderer import PageRenderer
from placet.pages.view import MessageView
from placet.server.page_replies import PageReplies


class ErrorPages:
    """Builds a page for an error if a browser asked for one; programs get JSON."""

    def __init__(self, *, renderer: PageRenderer, replies: PageReplies) -> None:
        self._renderer = renderer
        self._replies = replies

    def build(self, scope: Scope, error: Exception) -> RawReply | None:
        """Return the page, or None if the client is not a browser that opens an address."""
        request = Request(scope)
        if request.method not in ("GET", "HEAD") or "text/html" not in request.headers.get("accept", ""):
            return None
        status = error.status if isinstance(error, PlacetError) else 500
        if status < 500 and status not in (404, 405):
            return None
        status, _, extra = describe_error(error)
        language = self._replies.languages.of(request)
        view = MessageView(
            name="failed" if status >= 500 else "no_page",
            static_url=self._replies.static_url,
            language=language,
            page_url=request.url.path,
        )
        page = self._replies.page(self._renderer.render_message(view), status=status, language=language)
        page.headers["vary"] = f"Accept, {page.headers['vary']}"
        return RawReply(status, [*page.raw_headers, *extra], bytes(page.body))
