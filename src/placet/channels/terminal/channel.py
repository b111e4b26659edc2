"""The terminal channel: prints questions to standard error and reads typed numbers as answers.

A number is used once per process, so that a number typed for one question never answers another.
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
from placet.channels.terminal.interactions import find_button, interaction_from_button, split_lines
from placet.channels.terminal.render import (
    MAX_BUTTONS,
    MAX_LABEL_LENGTH,
    MAX_WIDTH,
    MIN_WIDTH,
    NumberedButton,
    TerminalLayout,
)
from placet.channels.texts import label_buttons
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.ports.channel import Card, CaseClosure, Interaction, SentMessage, WebhookRequest, WebhookResult

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

NO_SCREEN = "Standard error is not a terminal, so nobody would see the question. Choose another messenger."
NO_KEYBOARD = "Standard input is not a terminal, so nobody can type an answer. Answer by the link."
CHUNK = 4096


class TerminalChannel:
    """One screen and its keyboard. `user` is the person there; default: the login name."""

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
        self._user = user or get_login_name()
        self._styled = styled
        self._widest = widest
        self._columns = columns or self._count_screen_columns
        self._now = clock
        self._numbers = count(1)
        self._messages = count(1)
        self._open: dict[str, tuple[NumberedButton, ...]] = {}
        self._session = secrets.token_hex(8)
        self._presses = count(1)

    async def send(self, card: Card) -> SentMessage:
        """Print the question; raise ChannelRefused if the screen is not a terminal."""
        if not self._screen.isatty():
            raise ChannelRefused(NO_SCREEN)
        shown = label_buttons(card, MAX_BUTTONS, label=MAX_LABEL_LENGTH)
        answers = tuple(NumberedButton(number=next(self._numbers), button=button) for button in shown)
        text = render.build_message(card, answers, self._choose_layout())
        if not self._open_buttons():
            self._discard_typed_input()
        self._write(text)
        message_id = f"{self._session}-{next(self._messages)}"
        self._open[message_id] = answers
        return SentMessage(
            channel=self.name, conversation_id=self._user, message_id=message_id, sent_at=self._now()
        )

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Print how the case closed; its numbers are no longer accepted."""
        self._open.pop(sent_message.message_id, None)
        self._write(render.build_follow_up(card, closure, self._choose_layout()))

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Print a text below the typed number."""
        self._write(render.build_reply(text, self._choose_layout()))

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Raise SettingsError: a terminal has no webhook."""
        raise SettingsError("A terminal has no webhook. Use listen instead.")

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Yield typed answers until the input closes; raise SettingsError without a keyboard."""
        keyboard = self._require_keyboard()
        typed = b""
        async for chunk in _read_chunks(keyboard):
            lines, typed = split_lines(typed + chunk)
            interactions = [
                interaction
                for interaction in map(self._interaction_from_line, filter(None, lines))
                if interaction is not None
            ]
            if interactions:
                yield interactions
        if self._open_buttons():  # for example after Ctrl-D
            with suppress(Unreachable):
                self._write(
                    render.build_reply("Input is closed. Open the link to answer.", self._choose_layout())
                )

    async def aclose(self) -> None:
        """Do nothing: the terminal stays open."""

    def _interaction_from_line(self, line: str) -> Interaction | None:
        answers = self._open_buttons()
        answer = find_button(line, answers)
        if answer is not None:
            press_id = f"{self._session}-{next(self._presses)}"
            return interaction_from_button(answer, press_id=press_id, user=self._user)
        if answers:
            words = f"That is not an answer. Type {render.list_numbers(answers)}, or open the link."
            with suppress(Unreachable):
                self._write(render.build_reply(words, self._choose_layout()))
        return None

    def _open_buttons(self) -> tuple[NumberedButton, ...]:
        return tuple(answer for answers in self._open.values() for answer in answers)

    def _choose_layout(self) -> TerminalLayout:
        return TerminalLayout(
            width=max(MIN_WIDTH, min(self._widest, self._columns() - 1)), styled=self._styled
        )

    def _count_screen_columns(self) -> int:
        try:
            known = os.get_terminal_size(self._screen.fileno()).columns
        except (OSError, ValueError):
            known = 0  # some terminals report 0 as well
        return known or shutil.get_terminal_size().columns

    def _write(self, text: str) -> None:
        try:
            self._screen.write(text)
            self._screen.flush()
        except (OSError, ValueError) as error:
            raise Unreachable(f"The terminal cannot be written to ({type(error).__name__}).") from None

    def _require_keyboard(self) -> int:
        keyboard = self._keyboard
        if keyboard is None or not os.isatty(keyboard):
            raise SettingsError(NO_KEYBOARD)
        return keyboard

    def _discard_typed_input(self) -> None:
        """Discard input that was typed before the question was printed."""
        if self._keyboard is not None and termios is not None and os.isatty(self._keyboard):
            with suppress(termios.error):
                termios.tcflush(self._keyboard, termios.TCIFLUSH)


def from_environment(environ: Mapping[str, str]) -> TerminalChannel:
    """Create a channel on this process's terminal; NO_COLOR or TERM=dumb disables styles."""
    styled = "NO_COLOR" not in environ and environ.get("TERM", "") not in ("", "dumb")
    return TerminalChannel(keyboard=_find_stdin_descriptor(), styled=styled)


def get_login_name() -> str:
    """Return the user who runs this process, from the operating system rather than the environment."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except ImportError:  # Windows
        return getpass.getuser()
    except KeyError:  # a user id without a name, as in some containers
        return str(os.getuid())


def _find_stdin_descriptor() -> int | None:
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None


async def _read_chunks(keyboard: int) -> AsyncIterator[bytes]:
    """Yield bytes as they are typed, a line at a time, until the input is closed."""
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
        raise SettingsError(NO_KEYBOARD) from None
    try:
        while chunk := await typed.get():
            yield chunk
    finally:
        loop.remove_reader(keyboard)
