"""The seam to people: a channel puts a question into one messenger and brings back what was pressed there.

Rendering and reading are pure in every channel; only sending touches the world. A channel never sees a token:
a button carries an opaque reference, and who holds the other end of it submits the answer.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

Ending = Literal["decided", "expired", "withdrawn"]

ONLY_THERE = "Only on the page"
"""The name of a fact that lists what a message beside buttons does not show."""


class Button(Struct, frozen=True, kw_only=True):
    """One answer that a press can give whole; `reference` stands for the case and the action."""

    action: str
    label: str
    reference: str


class Card(Struct, frozen=True, kw_only=True):
    """A question as a messenger shows it. Every text comes from outside: escape it for the platform."""

    prompt: str
    message: str
    type: str
    source: str
    """Who asks: the service's name, or its host."""
    review_url: str
    """The link is always offered, buttons or not."""
    expires_at: datetime
    default_action: str
    buttons: tuple[Button, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """The few facts worth a line each; the page has the rest."""
    is_reminder: bool = False
    round: int = 1
    """From the second on, the question goes on from an earlier answer."""


class Ticket(Struct, frozen=True, kw_only=True):
    """Where a card was put; kept until the case has ended, so that every copy can be brought up to date."""

    channel: str
    place: str
    message_id: str
    details: dict[str, str] = {}
    sent_at: datetime


class Presser(Struct, frozen=True, kw_only=True):
    """Who pressed, as the platform vouches for it."""

    platform: str
    user_id: str
    name: str | None = None


class Press(Struct, frozen=True, kw_only=True):
    """One press of a button; platforms deliver it again and out of order, always with the same `id`."""

    id: str
    reference: str
    presser: Presser
    via: str
    """What the protocol calls this path, such as `telegram_inline_button`."""
    reply_to: dict[str, str] = {}
    """What the channel needs to answer this very press."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a case ended, for the cards that are still out."""

    how: Ending
    at: datetime
    action: str | None = None
    by: str | None = None
    reason: str | None = None


class Call(Struct, frozen=True, kw_only=True):
    """A request that a platform made to our webhook; header names are in lower case."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str] = {}


class Heard(Struct, frozen=True, kw_only=True):
    """What a webhook call amounts to: the presses in it, and the answer the platform is waiting for."""

    presses: tuple[Press, ...] = ()
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    reply: Callable[[str], bytes] | None = None
    """Where a platform shows an answer from this very response: the body that tells it, instead of `body`."""


class Channel(Protocol):
    """One messenger. Failures on the way raise Unreachable; a platform's refusal raises ChannelRefused."""

    name: str

    async def send(self, card: Card) -> Ticket:
        """Put a question before its person."""
        ...

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Bring a card up to date: no buttons, and what became of it; follow up where cards cannot change."""
        ...

    async def answer(self, press: Press, text: str) -> None:
        """Tell whoever pressed what came of it, within the platform's deadline."""
        ...

    async def hear(self, call: Call) -> Heard:
        """Read a webhook call; raises SignatureInvalid unless the platform itself made it."""
        ...

    def listen(self) -> AsyncIterator[Sequence[Press]]:
        """Presses as they come, without a public address; raises SettingsError where that cannot be."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
