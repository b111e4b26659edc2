"""The data of each page, filled in by the server and read by the templates."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from placet.cases.call_receipt import CallExecution
from placet.cases.case import Case, Offer
from placet.desk.asker import Asker
from placet.pages.diffs import Comparison
from placet.pages.language import ENGLISH, Language

Recap = tuple[tuple[str, Any], ...]


class Round(Struct, frozen=True, kw_only=True):
    """An earlier case of the same chain, its answer, and what changed in the next round."""

    asked_at: datetime
    prompt: str | None = None
    action: str | None = None
    recap: Recap = ()
    changes: Comparison | None = None


class Undo(Struct, frozen=True, kw_only=True):
    """What the service says about undoing an action: whether it is possible, and how."""

    possible: bool | None = None
    how: str | None = None


def undo_from_context(context: Mapping[str, Any]) -> Undo | None:
    """Return what the service says about undoing, or None if it says nothing."""
    how = context.get("undo")
    is_described = isinstance(how, str) and bool(how.strip())
    said = (context.get("reversible"), how, True if is_described else None)
    possible = next((one for one in said if isinstance(one, bool)), None)
    if isinstance(context.get("irreversible"), bool):
        possible = not context["irreversible"]
    if possible is None:
        return None
    return Undo(possible=possible, how=how if is_described else None)


def drop_undo_fields(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context without the fields about undoing, which the page shows separately."""
    if undo_from_context(context) is None:
        return dict(context)
    said = [name for name in ("reversible", "undo") if isinstance(context.get(name), bool | str)]
    return {name: value for name, value in context.items() if name not in said}


class ReviewView(Struct, frozen=True, kw_only=True):
    """The page of an open case."""

    case: Case
    offer: Offer
    asker: Asker
    template: str
    substance: dict[str, Any]
    now: datetime
    csrf: str
    idempotency_key: str
    static_url: str
    respond_url: str
    outside_url: str | None = None
    """Where the case is decided, if this page is in a frame in which it is not."""
    hand_back_url: str | None = None
    ends_when_handed_back: bool = False
    """Whether this person is the only one who can decide, so that handing back cancels the case."""
    actor: str = ""
    """The person who sees the page, as the event log names them."""
    pass_on_url: str | None = None
    opened_url: str | None = None
    draft_url: str | None = None
    language_url: str | None = None
    step: int = 0
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    notes: dict[str, str] = {}
    """The texts entered for passing the case on or handing it back."""
    notice: str | None = None
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH
    page_url: str | None = None
    events_url: str | None = None
    undo: Undo | None = None
    inbox_url: str | None = None


class GivenGrant(Struct, frozen=True, kw_only=True):
    """A grant given with an answer, and its current state."""

    id: str
    tool: str
    uses: int
    uses_left: int
    expires_at: datetime
    state: str


class DecidedContent(Struct, frozen=True, kw_only=True):
    """What a decision was about, and how the page shows the answer at a glance."""

    template: str
    substance: dict[str, Any]
    icon: str = "check"
    is_affirmative: bool = False


class ClosedView(Struct, frozen=True, kw_only=True):
    """The page of a closed case; `offer` is None after retention has erased its content."""

    decided: DecidedContent | None = None
    case: Case
    offer: Offer | None
    asker: Asker
    now: datetime
    static_url: str
    recap: Recap = ()
    outcome: str | None = None
    grants: tuple[GivenGrant, ...] = ()
    executions: tuple[CallExecution, ...] = ()
    """What became of the calls that were decided."""
    revoke_url: str | None = None
    csrf: str = ""
    rounds: tuple[Round, ...] = ()
    language: Language = ENGLISH
    page_url: str | None = None
    inbox_url: str | None = None


class PassOnView(Struct, frozen=True, kw_only=True):
    """The page with a new link for a colleague, which is shown only once."""

    page_url: None = None
    link: str
    review_url: str
    expires_at: datetime
    now: datetime
    static_url: str
    language: Language = ENGLISH


class MessageView(Struct, frozen=True, kw_only=True):
    """A page with one message, by its name in `page_texts.MESSAGES`, and the next step."""

    name: str
    static_url: str
    review_url: str | None = None
    language: Language = ENGLISH
    page_url: str | None = None
    inbox_url: str | None = None


class SignInView(Struct, frozen=True, kw_only=True):
    """The page to sign in to the inbox."""

    static_url: str
    sign_in_url: str
    problem: str | None = None
    """What was wrong with the key, by its name in `page_texts.SIGN_IN_PROBLEMS`."""
    look_again: bool = False
    command: str = "placet key create NAME --scope inbox:all"
    """The command that creates a key for the inbox."""
    language: Language = ENGLISH
    page_url: str | None = None


class InboxRow(Struct, frozen=True, kw_only=True):
    """One case in the inbox."""

    case_id: str
    type: str
    prompt: str
    status: str
    expires_at: datetime
    asker: Asker = Asker()
    note: tuple[str, ...] = ()
    """Short texts that distinguish the case from others with its prompt."""
    closed_at: datetime | None = None
    outcome: str | None = None
    person: str | None = None
    execution: CallExecution | None = None
    """What became of its calls; of several, the most notable."""


class InboxView(Struct, frozen=True, kw_only=True):
    """The inbox: open cases, or those decided last."""

    static_url: str
    name: str
    rows: tuple[InboxRow, ...]
    types: tuple[str, ...]
    waiting_url: str
    decided_url: str
    open_url: str
    push_key: str | None = None
    """The key with which this browser can subscribe to notifications; None if the server sends none."""
    push_url: str = ""
    worker_url: str = ""
    sign_out_url: str
    first_url: str
    csrf: str
    now: datetime
    decided: bool = False
    type: str = ""
    words: str = ""
    later: bool = False
    """Whether this is a page after the first."""
    next_url: str | None = None
    state: str = ""
    """A text that changes when the list changes."""
    language: Language = ENGLISH
    page_url: str | None = None


class DemoLink(Struct, frozen=True, kw_only=True):
    """A link to an open sample case."""

    type: str
    prompt: str
    url: str


class HomeView(Struct, frozen=True, kw_only=True):
    """The home page."""

    static_url: str
    links: tuple[DemoLink, ...] = ()
    docs_url: str | None = None
    inbox_url: str | None = None
    language: Language = ENGLISH
    page_url: str | None = None
