"""What a page needs to know; the server fills it in, the templates read it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.pages.diffs import Comparison
from placet.pages.language import ENGLISH, Language

Recap = tuple[tuple[str, Any], ...]


class Round(Struct, frozen=True, kw_only=True):
    """An earlier question of the same chain, what was answered, and what changed in the round after it."""

    asked_at: datetime
    prompt: str | None = None
    action: str | None = None
    recap: Recap = ()
    changes: Comparison | None = None


class Undo(Struct, frozen=True, kw_only=True):
    """What the service says about undoing: whether it can be done, and in its own words how."""

    possible: bool | None = None
    how: str | None = None


def undo_of(context: Mapping[str, Any]) -> Undo | None:
    """Whether it can be undone, where the service says so; None claims nothing."""
    how = context.get("undo")
    told = isinstance(how, str) and bool(how.strip())
    said = (context.get("reversible"), how, True if told else None)
    possible = next((one for one in said if isinstance(one, bool)), None)
    if isinstance(context.get("irreversible"), bool):
        possible = not context["irreversible"]
    if possible is None:
        return None
    return Undo(possible=possible, how=how if told else None)


def without_undo(context: Mapping[str, Any]) -> dict[str, Any]:
    """The context without what the page says about undoing anyway, so that it is not said twice."""
    if undo_of(context) is None:
        return dict(context)
    said = [name for name in ("reversible", "undo") if isinstance(context.get(name), bool | str)]
    return {name: value for name, value in context.items() if name not in said}


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
    draft_url: str | None = None
    language_url: str | None = None
    step: int = 0
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    remarks: dict[str, str] = {}
    """What was typed for passing it on, or for not deciding it."""
    notice: str | None = None
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH
    page_url: str | None = None
    events_url: str | None = None
    undo: Undo | None = None
    inbox_url: str | None = None


class GivenGrant(Struct, frozen=True, kw_only=True):
    """What was allowed along with an answer, and what has become of it."""

    id: str
    tool: str
    uses: int
    uses_left: int
    expires_at: datetime
    state: str


class ClosedView(Struct, frozen=True, kw_only=True):
    """A case that takes no answer any more; `offer` is None once retention has erased it."""

    case: Case
    offer: Offer | None
    now: datetime
    static_url: str
    recap: Recap = ()
    outcome: str | None = None
    grants: tuple[GivenGrant, ...] = ()
    revoke_url: str | None = None
    csrf: str = ""
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH
    page_url: str | None = None
    inbox_url: str | None = None


class PassOnView(Struct, frozen=True, kw_only=True):
    """A new link for a colleague, shown this once: there is no way to see the page again."""

    page_url: None = None
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
    page_url: str | None = None
    inbox_url: str | None = None


class SignInView(Struct, frozen=True, kw_only=True):
    """Where a person shows the key that opens the inbox."""

    static_url: str
    sign_in_url: str
    problem: str | None = None
    """What was wrong with the key, by its name in the table of problems."""
    look_again: bool = False
    command: str = "placet key create NAME --scope inbox:all"
    """What makes a key for the inbox."""
    language: Language = ENGLISH
    page_url: str | None = None


class InboxRow(Struct, frozen=True, kw_only=True):
    """One case in the inbox."""

    case_id: str
    kind: str
    prompt: str
    status: str
    expires_at: datetime
    service: str | None = None
    agent: str | None = None
    closed_at: datetime | None = None
    outcome: str | None = None
    person: str | None = None


class InboxView(Struct, frozen=True, kw_only=True):
    """What waits for a person, or what was decided last."""

    static_url: str
    name: str
    rows: tuple[InboxRow, ...]
    kinds: tuple[str, ...]
    waiting_url: str
    decided_url: str
    open_url: str
    sign_out_url: str
    first_url: str
    csrf: str
    now: datetime
    decided: bool = False
    kind: str = ""
    words: str = ""
    later: bool = False
    """Whether this is a page after the first."""
    next_url: str | None = None
    state: str = ""
    """Changes when the list does."""
    language: Language = ENGLISH
    page_url: str | None = None


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
    inbox_url: str | None = None
    language: Language = ENGLISH
    page_url: str | None = None
