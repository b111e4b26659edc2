"""The interface to messengers: a channel sends questions to people and reports the buttons they press.

Rendering messages and parsing webhooks are pure in every channel; only sending does I/O. A channel never sees
a submit token: a button carries an opaque reference, and the agent that created it submits the answer.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

ClosureKind = Literal["decided", "expired", "withdrawn"]

ONLY_ON_PAGE = "Only on the page"
"""The name of the fact that lists what a message with buttons does not show."""


class Button(Struct, frozen=True, kw_only=True):
    """A button that answers a question; `reference` identifies the case and the action."""

    action: str
    label: str
    reference: str


class Card(Struct, frozen=True, kw_only=True):
    """A question for a messenger. Every text is untrusted: escape it for the platform."""

    prompt: str
    message: str
    type: str
    source: str
    """The host of the service that asks, with the authenticated caller if the service names it."""
    review_url: str
    """The review link, shown with or without buttons."""
    expires_at: datetime
    default_action: str
    buttons: tuple[Button, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """The most important facts; the review page shows the rest."""
    is_reminder: bool = False
    is_expiring: bool = False
    """Whether a reminder is the last: the deadline is near."""
    round: int = 1
    """Greater than 1 when the question follows up on an earlier answer."""


class SentMessage(Struct, frozen=True, kw_only=True):
    """A card that was sent; stored until the case closes, so that every copy can be updated."""

    channel: str
    conversation_id: str
    message_id: str
    details: dict[str, str] = {}
    sent_at: datetime


class InteractionUser(Struct, frozen=True, kw_only=True):
    """The person who pressed a button, as the platform authenticated them."""

    platform: str
    user_id: str
    name: str | None = None


class Interaction(Struct, frozen=True, kw_only=True):
    """One press of a button. Platforms may deliver it again and out of order, with the same `id`."""

    id: str
    reference: str
    user: InteractionUser
    via: str
    """The protocol's name for this kind of button, such as `telegram_inline_button`."""
    reply_to: dict[str, str] = {}
    """What the channel needs to reply to this interaction."""


class CaseClosure(Struct, frozen=True, kw_only=True):
    """How a case closed, for the cards that still show it as open."""

    how: ClosureKind
    at: datetime
    action: str | None = None
    by: str | None = None
    reason: str | None = None
    is_forged: bool = False
    """Whether the signature of the decision is invalid, so that the agent does not accept it."""


class WebhookRequest(Struct, frozen=True, kw_only=True):
    """A request by a platform to our webhook; header names are in lower case."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str] = {}


class WebhookResult(Struct, frozen=True, kw_only=True):
    """The interactions in a webhook request, and the response that the platform expects."""

    interactions: tuple[Interaction, ...] = ()
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    reply: Callable[[str], bytes] | None = None
    """Builds a body that shows a text to the person, for platforms that display the response itself."""


class Channel(Protocol):
    """One messenger. Raises Unreachable on transport failures, ChannelRefused if the platform refuses."""

    name: str

    async def send(self, card: Card) -> SentMessage:
        """Send a question."""
        ...

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Update a card: remove the buttons and say how the case closed; or send a follow-up message."""
        ...

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Tell the person who pressed the button what happened, within the platform's deadline."""
        ...

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Parse a webhook request; raise SignatureInvalid unless the platform sent it."""
        ...

    def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Yield interactions as they arrive, without a public address; raise SettingsError if unsupported."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...
