"""Show what the person is doing on standard error: a live line in a terminal, else a line per change."""

import asyncio
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TextIO

from placet.agent import Notice
from placet.cli.text_tables import get_terminal_width
from placet.protocol.poll import Progress
from placet.text.truncation import to_single_line, truncate

ERASE = "\r\x1b[K"
REDRAW_INTERVAL_S = 1.0
TROUBLE_FOR = timedelta(seconds=75)  # a little longer than the longest pause between two attempts
UNKNOWN_DEADLINE_FOR = timedelta(days=3000)  # used for a case without a deadline
HINT = "Ctrl-C leaves it open"


class ProgressLine:
    """Shows one case. A live line overwrites itself; everything else is printed above it."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        live: bool | None = None,
        several: bool = False,
        columns: Callable[[], int] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._out = out or sys.stderr
        self.is_screen = is_live(self._out)
        self.live = self.is_screen if live is None else live
        self._several = several
        self.columns = columns or (lambda: get_terminal_width(self._out))
        self._now = clock
        self._last: Notice | None = None
        self._trouble: tuple[str, datetime] | None = None
        self._shown = ""
        self._printed: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def say(self, *lines: str) -> None:
        """Print lines that stay."""
        self.clear()
        for line in lines:
            self._write(line + "\n")
        self._draw()

    def wrap(self, text: str, indent: str = "") -> list[str]:
        """Return the text wrapped to the terminal; one line if the output is not a terminal."""
        if not (self.live or self.is_screen):
            return [indent + text]
        width = max(self.columns() - 1, 20)
        return textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )

    def show(self, notice: Notice) -> None:
        """Update the line with an event."""
        if notice.name == "trouble":
            self._trouble = (_describe_failure(notice), self._now())
        elif notice.name in ("requested", "opened", "in_progress"):
            self._last, self._trouble = notice, None
        if self.live:
            self._draw()
            self._start_redrawing()
        elif self._last is not None:
            self._print_change(notice)

    def clear(self) -> None:
        """Clear the live line."""
        if self._shown:
            self._write(ERASE)
            self._shown = ""

    def end(self) -> None:
        """Nothing more happens."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.clear()
        self._last = None

    def _start_redrawing(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._redraw())

    async def _redraw(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_INTERVAL_S)
            self._draw()

    def _draw(self) -> None:
        if not self.live or self._last is None:
            return
        trouble = self._trouble if self._trouble and self._now() < self._trouble[1] + TROUBLE_FOR else None
        doing = (trouble[0], "Trouble on the way") if trouble else describe_activity(self._last)
        left = describe_time_left(self._last.case.expires_at - self._now())
        self._shown = fit_width(doing, [part for part in (left, HINT) if part], self.columns() - 1)
        self._write(f"{ERASE}{self._shown}")

    def _print_change(self, notice: Notice) -> None:
        words = (
            _describe_failure(notice) if notice.name == "trouble" else "".join(describe_activity(notice)[:1])
        )
        said = (notice.case.case_id, words)
        if words and said not in self._printed:
            self._printed.add(said)
            left = describe_time_left(notice.case.expires_at - self._now())
            which = f"{to_single_line(notice.case.case_id)}: " if self._several else ""
            self._write(f"{which}{words}{f' ({left})' if left else ''}.\n")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal was closed; the wait goes on
            self._out.write(text)
            self._out.flush()


def is_live(out: TextIO) -> bool:
    """Return whether a line on this stream can be overwritten."""
    return out.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def describe_activity(notice: Notice) -> tuple[str, ...]:
    """Return descriptions of what the person is doing, from the longest to the shortest."""
    if notice.name == "in_progress":
        far = _describe_progress(notice.progress)
        return (
            ", ".join(["A person is answering", *far]),
            ", ".join(["Being answered", *far[:1]]),
            "Being answered",
        )
    if notice.name == "opened":
        return "A person has opened it", "Opened, no answer yet"
    return ("Waiting for a person to open it", "Not opened yet") if notice.name == "requested" else ()


def _describe_failure(notice: Notice) -> str:
    return to_single_line(notice.text or "").rstrip(".")


def _describe_progress(progress: Progress | None) -> list[str]:
    if progress is None:
        return []
    counts = (
        ("step {} of {}", progress.current_step, progress.total_steps),
        ("{} of {} fields", progress.completed_fields, progress.total_fields),
    )
    return [words.format(done, total) for words, done, total in counts if done is not None and total]


def describe_time_left(left: timedelta) -> str:
    """Return the remaining time as a countdown."""
    seconds = int(left.total_seconds())
    if seconds < 0:
        return "the time is over"
    if left > UNKNOWN_DEADLINE_FOR - timedelta(days=1000):
        return ""
    days, rest = divmod(seconds, 86_400)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days} d {hours} h left"
    return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"


def fit_width(doing: Sequence[str], rest: Sequence[str], width: int) -> str:
    """Return one line: the longest description that fits, and as much of the rest as fits after it."""
    for count in range(len(rest), 0, -1):
        for words in doing if count == 1 else doing[:1]:
            line = " · ".join((words, *rest[:count]))
            if len(line) <= width:
                return line
    return truncate(rest[0] if rest else doing[-1], max(width, 1))
