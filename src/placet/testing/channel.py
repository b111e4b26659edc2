"""A channel for tests that records cards and simulates button presses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

import msgspec
from msgspec import Struct

from placet.errors import SignatureInvalid
from placet.ports.channel import (
    Card,
    CaseClosure,
    Interaction,
    InteractionUser,
    SentMessage,
    WebhookRequest,
    WebhookResult,
)
from placet.testing.clock import DAYBREAK

VIA = "x-recording_button"
GENUINE = {"x-recording": "genuine"}


class SentCard(Struct, kw_only=True):
    """A card that was sent, and how its case closed."""

    card: Card
    sent_message: SentMessage
    closure: CaseClosure | None = None

    def record_closure(self, closure: CaseClosure) -> None:
        """Record how the case closed."""
        self.closure = closure


class RecordingChannel:
    """A Channel that records what it sends. Sending succeeds unless a failure is expected."""

    name = "x-recording"

    def __init__(self) -> None:
        self.sent: list[SentCard] = []
        self.answers: list[tuple[Interaction, str]] = []
        self.is_closed = False
        self._failures: list[Exception] = []
        self._presses: asyncio.Queue[Interaction] = asyncio.Queue()
        self._numbers = count(1)
        self._news = asyncio.Condition()

    def expect(self, *failures: Exception) -> None:
        """Raise these on the next sends, one each."""
        self._failures.extend(failures)

    def press(self, action: str, *, user_id: str = "7", name: str | None = "Ada") -> Interaction:
        """Press the newest button of this action. `listen` yields the interaction, which is also returned."""
        buttons = [button for sent in self.sent if sent.closure is None for button in sent.card.buttons]
        reference = [button.reference for button in buttons if button.action == action][-1]
        interaction = self.make_interaction(reference, user_id=user_id, name=name)
        self._presses.put_nowait(interaction)
        return interaction

    def make_interaction(
        self, reference: str, *, user_id: str = "7", name: str | None = "Ada"
    ) -> Interaction:
        """Return an interaction without delivering it."""
        user = InteractionUser(platform=self.name, user_id=user_id, name=name)
        return Interaction(id=f"press-{next(self._numbers)}", reference=reference, user=user, via=VIA)

    async def wait_until(self, is_true: Callable[[], bool], *, within: float = 20) -> None:
        """Wait until the condition is true. Raises TimeoutError after `within` seconds."""
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(is_true)

    async def send(self, card: Card) -> SentMessage:
        """Record the card."""
        if self._failures:
            raise self._failures.pop(0)
        sent_message = SentMessage(
            channel=self.name,
            conversation_id="here",
            message_id=f"message-{len(self.sent) + 1}",
            sent_at=DAYBREAK,
        )
        self.sent.append(SentCard(card=card, sent_message=sent_message))
        await self._notify()
        return sent_message

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Record how the case closed."""
        for sent in self.sent:
            if sent.sent_message == sent_message:
                sent.record_closure(closure)
        await self._notify()

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Record the reply to the person who pressed the button."""
        self.answers.append((interaction, text))
        await self._notify()

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Read a request that `call_for` built."""
        if any(request.headers.get(name) != value for name, value in GENUINE.items()):
            raise SignatureInvalid
        return WebhookResult(interactions=(msgspec.json.decode(request.body, type=Interaction),))

    def call_for(self, interaction: Interaction) -> WebhookRequest:
        """Return the webhook request of an interaction."""
        return WebhookRequest(method="POST", headers=GENUINE, body=msgspec.json.encode(interaction))

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Yield the interactions of the test."""
        while True:
            yield (await self._presses.get(),)

    async def aclose(self) -> None:
        """Record that the channel was closed."""
        self.is_closed = True

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()
