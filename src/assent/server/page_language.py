"""Which language a page speaks: the one chosen on a page before, or what the browser asks for."""

from starlette.requests import Request

from assent.pages.language import ENGLISH, Language

LANGUAGE_COOKIE = "assent_lang"


def language_of(request: Request) -> Language:
    """The language for whoever sent this request."""
    return ENGLISH
