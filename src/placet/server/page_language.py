"""Choose the language of a page: the reviewer's choice, or the browser's preference."""

from starlette.requests import Request

from placet.pages.language import Language
from placet.pages.languages import Languages

QUERY = "lang"


class PageLanguages:
    """Chooses a language for each request."""

    def __init__(self, languages: Languages, cookie: str) -> None:
        """`cookie` is the name of the cookie that stores the reviewer's choice."""
        self._languages = languages
        self._cookie = cookie

    def of(self, request: Request) -> Language:
        """Return the language chosen now or before if available, else the one the browser prefers."""
        chosen = request.query_params.get(QUERY) or request.cookies.get(self._cookie)
        return self._languages.choose(request.headers.get("accept-language"), chosen)

    def read_choice(self, request: Request) -> str | None:
        """Return the language chosen with this request, to be stored in a cookie, or None."""
        asked = request.query_params.get(QUERY)
        return self._languages.choose(None, asked).code if asked else None
