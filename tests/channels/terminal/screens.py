"""Terminals for tests: a screen that remembers what was written, and a real one with its keyboard."""

import asyncio
import io
import os
import pty
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from placet.channels.terminal import TerminalChannel
from placet.testing.platforms import ChannelHarness, VisibleMessage
from tests.channels.terminal.control_characters import STYLES, find_control_characters


class Screen(io.StringIO):
    """A terminal's output side, one message per write."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.watched = [True]
        self.gone = False
        self._news = asyncio.Event()

    def isatty(self) -> bool:
        return self.watched.pop() if len(self.watched) > 1 else self.watched[0]

    def write(self, text: str) -> int:
        if self.gone:
            self.gone = False
            raise OSError(5, "Input/output error")
        self.messages.append(text)
        self._news.set()
        return len(text)

    async def wait_until(self, words: str) -> None:
        """Wait until this was written."""
        async with asyncio.timeout(60):
            while not any(words in STYLES.sub("", message) for message in self.messages):
                self._news.clear()
                await self._news.wait()


class TerminalHarness(ChannelHarness):
    can_edit = False

    def __init__(self, screen: Screen, channel: TerminalChannel) -> None:
        self.screen = screen
        self.channel: TerminalChannel = channel

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(text) for text in self.screen.messages]

    def _shown(self, written: str) -> VisibleMessage:
        text = STYLES.sub("", written)
        links = re.findall(r"^  Open [a-z ]+:\n  (https?://\S+)$", text, flags=re.MULTILINE)
        problems = tuple(find_control_characters(written))
        return VisibleMessage(text=text, links=tuple(links), problems=problems)

    def refuse_next(self) -> None:
        self.screen.watched.append(False)

    def slow_down_next(self) -> None:
        """Terminals never ask for time."""

    def fail_next(self) -> None:
        self.screen.gone = True


class Window:
    """A real terminal: `keyboard` is its inner side, `type` presses keys on the outer one."""

    def __init__(self, outer: int, keyboard: int) -> None:
        self._outer = outer
        self.keyboard = keyboard

    def type(self, keys: str) -> None:
        os.write(self._outer, keys.encode())

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._outer)


@contextmanager
def open_window() -> Iterator[Window]:
    outer, keyboard = pty.openpty()
    found = Window(outer, keyboard)
    try:
        yield found
    finally:
        found.close()
        os.close(keyboard)
