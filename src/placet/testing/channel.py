"""A messenger that reaches nobody: it remembers what it was given, and people press when the test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

import msgspec
from msgspec import Struct

from placet.errors import SignatureInvalid
from placet.ports.channel import Call, Card, Ended, Heard, Press, Presser, Ticket
from placet.testing.clock import DAYBREAK

VIA = "x-recording_button"
GENUINE = {"x-recording": "genuine"}


class Sent(Struct, kw_only=True):
    """One card, and what became of it."""

    card: Card
    ticket: Ticket
    ended: Ended | None = None


class RecordingChannel:
    """A Channel for tests: every card arrives, unless told otherwise."""

    name = "x-recording"

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.answers: list[tuple[Press, str]] = []
        self.is_closed = False
        self._failures: list[Exception] = []
        self._presses: asyncio.Queue[Press] = asyncio.Queue()
        self._numbers = count(1)
        self._news = asyncio.Condition()

    def expect(self, *failures: Exception) -> None:
        """Raise these on the next sends, one each."""
        self._failures.extend(failures)

    def press(self, action: str, *, user_id: str = "7", name: str | None = "Ada") -> Press:
        """Press the newest button of this action; it is heard by `listen`, and is returned."""
        buttons = [button for sent in self.sent if sent.ended is None for button in sent.card.buttons]
        reference = [button.reference for button in buttons if button.action == action][-1]
        press = self.pressed(reference, user_id=user_id, name=name)
        self._presses.put_nowait(press)
        return press

    def pressed(self, reference: str, *, user_id: str = "7", name: str | None = "Ada") -> Press:
        """A press that nobody has heard yet."""
        presser = Presser(platform=self.name, user_id=user_id, name=name)
        return Press(id=f"press-{next(self._numbers)}", reference=reference, presser=presser, via=VIA)

    async def until(self, holds: Callable[[], bool], *, within: float = 20) -> None:
        """Wait until this holds of what was sent and answered; raises TimeoutError after so many seconds."""
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(holds)

    async def send(self, card: Card) -> Ticket:
        """Remember the card."""
        if self._failures:
            raise self._failures.pop(0)
        ticket = Ticket(
            channel=self.name, place="here", message_id=f"message-{len(self.sent) + 1}", sent_at=DAYBREAK
        )
        self.sent.append(Sent(card=card, ticket=ticket))
        await self._notify()
        return ticket

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Remember how it ended."""
        for sent in self.sent:
            if sent.ticket == ticket:
                sent.ended = ended
        await self._notify()

    async def answer(self, press: Press, text: str) -> None:
        """Remember what whoever pressed was told."""
        self.answers.append((press, text))
        await self._notify()

    async def hear(self, call: Call) -> Heard:
        """Read a call that `call_for` made."""
        if any(call.headers.get(name) != value for name, value in GENUINE.items()):
            raise SignatureInvalid
        return Heard(presses=(msgspec.json.decode(call.body, type=Press),))

    def call_for(self, press: Press) -> Call:
        """The webhook call for a press."""
        return Call(method="POST", headers=GENUINE, body=msgspec.json.encode(press))

    async def listen(self) -> AsyncIterator[Sequence[Press]]:
        """The presses that the test makes."""
        while True:
            yield (await self._presses.get(),)

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()
