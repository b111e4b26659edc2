"""The terminal: questions go to standard error, and answers are typed where the agent was started.

Numbers are never used again while the agent runs: what was typed for one question cannot answer the next one.
"""

import asyncio
import getpass
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TextIO

from placet.channels.terminal import render
from placet.channels.terminal.presses import chosen, press_of, whole_lines
from placet.channels.terminal.render import LABEL, MAX_WIDTH, MIN_WIDTH, MOST_BUTTONS, Numbered, Paper
from placet.channels.texts import buttons_of
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Call, Card, Ended, Heard, Press, Ticket

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

NOBODY_SEES = "Nobody sees this: standard error is not a terminal. Choose another way to tell the person."
NOBODY_TYPES = "Nobody can type here: standard input is not a terminal. Answer by the link."
CHUNK = 4096


class TerminalChannel:
    """One screen and its keyboard. `user` is who sits there; the operating system vouches for it."""

    name = "terminal"

    def __init__(
        self,
        *,
        screen: TextIO | None = None,
        keyboard: int | None = None,
        user: str | None = None,
        styled: bool = True,
        widest: int = MAX_WIDTH,
        columns: Callable[[], int] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._screen = screen or sys.stderr
        self._keyboard = keyboard
        self._user = user or login_name()
        self._styled = styled
        self._widest = widest
        self._columns = columns or self._screen_columns
        self._now = clock
        self._numbers = count(1)
        self._messages = count(1)
        self._open: dict[str, tuple[Numbered, ...]] = {}
        self._session = secrets.token_hex(8)
        self._presses = count(1)

    async def send(self, card: Card) -> Ticket:
        """Show the question; raises ChannelRefused where nobody sees it."""
        if not self._screen.isatty():
            raise ChannelRefused(NOBODY_SEES)
        shown = buttons_of(card, MOST_BUTTONS, label=LABEL)
        answers = tuple(Numbered(number=next(self._numbers), button=button) for button in shown)
        text = render.question(card, answers, self._paper())
        if not self._answers():
            self._forget_typed()
        self._write(text)
        message_id = f"{self._session}-{next(self._messages)}"
        self._open[message_id] = answers
        return Ticket(channel=self.name, place=self._user, message_id=message_id, sent_at=self._now())

    async def settle(self, ticket: Ticket, card: Card, ended: Ended) -> None:
        """Say how it ended; its numbers answer nothing any more."""
        self._open.pop(ticket.message_id, None)
        self._write(render.ending(card, ended, self._paper()))

    async def answer(self, press: Press, text: str) -> None:
        """Say under what was typed what came of it."""
        self._write(render.remark(text, self._paper()))

    async def hear(self, call: Call) -> Heard:
        """A terminal has no webhook: raises SettingsError."""
        raise SettingsError("A terminal has no webhook; what is typed there is heard by listening.")

    async def listen(self) -> AsyncIterator[Sequence[Press]]:
        """What is typed, until the keyboard is gone; raises SettingsError where there is none."""
        keyboard = self._keyboard_there()
        typed = b""
        async for chunk in _chunks(keyboard):
            lines, typed = whole_lines(typed + chunk)
            presses = [press for press in map(self._read, filter(None, lines)) if press is not None]
            if presses:
                yield presses
        if self._answers():  # as after Ctrl-D: whoever goes on typing should know
            with suppress(Unreachable):
                self._write(
                    render.remark("What is typed here is heard no more: open the link.", self._paper())
                )

    async def aclose(self) -> None:
        """The terminal stays as it is."""

    def _read(self, line: str) -> Press | None:
        answers = self._answers()
        answer = chosen(line, answers)
        if answer is not None:
            press_id = f"{self._session}-{next(self._presses)}"
            return press_of(answer, press_id=press_id, user=self._user)
        if answers:
            words = f"That is no answer here. Type {render.numbers(answers)}, or open the link."
            with suppress(Unreachable):
                self._write(render.remark(words, self._paper()))
        return None

    def _answers(self) -> tuple[Numbered, ...]:
        return tuple(answer for answers in self._open.values() for answer in answers)

    def _paper(self) -> Paper:
        return Paper(width=max(MIN_WIDTH, min(self._widest, self._columns() - 1)), styled=self._styled)

    def _screen_columns(self) -> int:
        try:
            known = os.get_terminal_size(self._screen.fileno()).columns
        except (OSError, ValueError):
            known = 0  # as some terminals say, too, that do not know
        return known or shutil.get_terminal_size().columns

    def _write(self, text: str) -> None:
        try:
            self._screen.write(text)
            self._screen.flush()
        except (OSError, ValueError) as error:
            raise Unreachable(f"The terminal is gone ({type(error).__name__}).") from None

    def _keyboard_there(self) -> int:
        keyboard = self._keyboard
        if keyboard is None or not os.isatty(keyboard):
            raise SettingsError(NOBODY_TYPES)
        return keyboard

    def _forget_typed(self) -> None:
        """What was typed before any question was shown answers none."""
        if self._keyboard is not None and termios is not None and os.isatty(self._keyboard):
            with suppress(termios.error):
                termios.tcflush(self._keyboard, termios.TCIFLUSH)


def from_environment(environ: Mapping[str, str]) -> TerminalChannel:
    """This process's own terminal; NO_COLOR and TERM=dumb mean plain text."""
    styled = "NO_COLOR" not in environ and environ.get("TERM", "") not in ("", "dumb")
    return TerminalChannel(keyboard=_stdin(), styled=styled)


def login_name() -> str:
    """Who runs this process, as the operating system has it; not what the environment claims."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except ImportError:  # Windows
        return getpass.getuser()
    except KeyError:  # a number without a name, as in some containers
        return str(os.getuid())


def _stdin() -> int | None:
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None


async def _chunks(keyboard: int) -> AsyncIterator[bytes]:
    """Bytes as they are typed, which is a line at a time; ends when the window is closed."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        try:
            chunk = os.read(keyboard, CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            loop.remove_reader(keyboard)
        typed.put_nowait(chunk)

    try:
        loop.add_reader(keyboard, read)
    except NotImplementedError:
        raise SettingsError(NOBODY_TYPES) from None
    try:
        while chunk := await typed.get():
            yield chunk
    finally:
        loop.remove_reader(keyboard)
