"""Which language a page speaks: the one chosen on a page before, or what the browser asks for."""

from starlette.requests import Request

from placet.pages.language import Language
from placet.pages.languages import Languages

LANGUAGE_COOKIE = "placet_lang"
QUERY = "lang"


class PageLanguages:
    """Chooses a language for each request."""

    def __init__(self, languages: Languages) -> None:
        self._languages = languages

    def of(self, request: Request) -> Language:
        """What the person chose, now or before, if it is spoken here, else what the browser prefers."""
        chosen = request.query_params.get(QUERY) or request.cookies.get(LANGUAGE_COOKIE)
        return self._languages.choose(request.headers.get("accept-language"), chosen)

    def read_choice(self, request: Request) -> str | None:
        """The language that the person chooses with this very request, to be remembered."""
        asked = request.query_params.get(QUERY)
        return self._languages.choose(None, asked).code if asked else None
