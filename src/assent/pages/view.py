"""What a page needs to know; the server fills it in, the templates read it."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from assent.cases.case import Case, Offer
from assent.pages.language import ENGLISH, Language

Recap = tuple[tuple[str, Any], ...]


class Round(Struct, frozen=True, kw_only=True):
    """An earlier question of the same chain, and what was answered."""

    asked_at: datetime
    prompt: str | None = None
    action: str | None = None
    recap: Recap = ()


class ReviewView(Struct, frozen=True, kw_only=True):
    """An open case before a person."""

    case: Case
    offer: Offer
    template: str
    substance: dict[str, Any]
    now: datetime
    csrf: str
    idempotency_key: str
    static_url: str
    respond_url: str
    decline_url: str | None = None
    pass_on_url: str | None = None
    opened_url: str | None = None
    step: int = 0
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    notice: str | None = None
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH


class ClosedView(Struct, frozen=True, kw_only=True):
    """A case that takes no answer any more; `offer` is None once retention has erased it."""

    case: Case
    offer: Offer | None
    now: datetime
    static_url: str
    recap: Recap = ()
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH


class PassOnView(Struct, frozen=True, kw_only=True):
    """A new link for a colleague, shown this once."""

    link: str
    review_url: str
    expires_at: datetime
    now: datetime
    static_url: str
    language: Language = ENGLISH


class MessageView(Struct, frozen=True, kw_only=True):
    """One thing to say, by its name in the table of messages, and where to go next."""

    name: str
    static_url: str
    review_url: str | None = None
    language: Language = ENGLISH


class DemoLink(Struct, frozen=True, kw_only=True):
    """One open case to try."""

    type: str
    prompt: str
    url: str


class HomeView(Struct, frozen=True, kw_only=True):
    """The landing page."""

    static_url: str
    links: tuple[DemoLink, ...] = ()
    docs_url: str | None = None
    language: Language = ENGLISH
