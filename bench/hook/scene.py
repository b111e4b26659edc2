"""What everyone runs: a model that asks for calls at once, tools that answer at once, an approval of all."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

LAST_WORDS = "done"
GO = "Pay the invoices."
TOOL = "pay"
AS_TEXT = ", kept as text"
WITH_PLACET = " with Placet"
ON_A_LOOP = ", on a loop that is never held up"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """How many calls a turn has, and the file that threads are kept in, or None to keep them in memory."""

    calls: int
    folder: Path | None
    cleanup: ExitStack = field(default_factory=ExitStack)
    """Closes what was opened here."""

    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop of one's own, on which what does not await runs too."""
        made = asyncio.new_event_loop()
        asyncio.set_event_loop(made)
        self.cleanup.callback(made.close)
        self.cleanup.callback(asyncio.set_event_loop, None)
        return made

    def file(self, name: str) -> str:
        """A database of one's own."""
        assert self.folder is not None
        return str(self.folder / f"{name}-{self.calls}.db")

    def arguments(self) -> list[tuple[str, dict[str, object]]]:
        """The calls of the turn: their ids and what they are to pay."""
        return [(f"call_{number}", {"to": "ACME", "cents": 100 * number}) for number in range(self.calls)]


@dataclass(frozen=True, slots=True)
class Contestant:
    """Who is measured: `cycle` asks, is stopped, approves, resumes, and returns the model's last words."""

    name: str
    cycle: Callable[[], str]


def pay(to: str, cents: int) -> str:
    """Pay someone."""
    return f"Paid {cents} to {to}."


async def apay(to: str, cents: int) -> str:
    """Pay someone."""
    return f"Paid {cents} to {to}."
