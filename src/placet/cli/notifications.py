"""How the link reaches a person: printed, drawn, opened in a browser, or sent to a messenger."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from placet.agent import Notice, PendingCases
from placet.agent.channel_bridge import ChannelBridge, card_of
from placet.channels import texts
from placet.channels.registry import (
    CHANNEL_NAMES,
    can_listen,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.cli.progress_line import ProgressLine
from placet.cli.qr_code import qr_lines, qr_width
from placet.errors import PlacetError, SettingsError
from placet.ports.channel import Channel
from placet.protocol.addresses import LOOPBACK_HOSTS
from placet.text.characters import mark_hidden
from placet.text.truncation import to_single_line, truncate

HERE = ("print", "browser", "qr")
VIAS = (*CHANNEL_NAMES, *HERE)
INDENT = "  "
LONGEST_PROMPT = 600


class NotificationTarget(Protocol):
    """Somewhere a person is told."""

    async def tell(self, notice: Notice) -> None:
        """Take in a notice; raises PlacetError where the link could not be put before a person."""
        ...

    async def listen(self) -> None:
        """Take answers that are given there, until cancelled."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


class QuestionNotifier:
    """Every place of one call, and the progress line."""

    def __init__(self, line: ProgressLine, places: Sequence[NotificationTarget]) -> None:
        self._line = line
        self._places = places
        self._listeners: list[asyncio.Task[None]] = []
        self.last: Notice | None = None

    async def __call__(self, notice: Notice) -> None:
        """Tell every place; one that fails is named, and all that fail are an error."""
        if notice.name in ("told", "opened", "in_progress", "reminder"):
            self.last = notice
        failed = [error for place in self._places if (error := await self._notify_target(place, notice))]
        if notice.name == "told" and len(failed) == len(self._places) > 0:
            raise failed[0]
        for error in failed:
            self._line.say(f"placet: {error.message}")
        self._line.show(notice)

    def listen(self) -> None:
        """Take answers from every place that gives any."""
        if not self._listeners:
            self._listeners = [asyncio.create_task(self._listen(place)) for place in self._places]

    async def aclose(self) -> None:
        """Stop listening, and leave every place."""
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for place in self._places:
            await place.aclose()

    async def _notify_target(self, place: NotificationTarget, notice: Notice) -> PlacetError | None:
        try:
            await place.tell(notice)
        except PlacetError as error:
            return error
        return None

    async def _listen(self, place: NotificationTarget) -> None:
        try:
            await place.listen()
        except PlacetError as error:
            self._line.say(f"placet: {error.message}")


class OpenMessenger(Struct, frozen=True):
    """A messenger that is set up, and those whose presses are heard from here."""

    channel: Channel
    answerers: frozenset[str]


def open_messengers(
    vias: Sequence[str], also: Sequence[str], environ: Mapping[str, str], line: ProgressLine
) -> dict[str, OpenMessenger]:
    """The messengers among these names, and those of `also` that are set up.

    Raises SettingsError naming what one of the former still needs.
    """
    reached = {via: _open_messenger(via, environ) for via in vias if via not in HERE}
    for name in reached:
        if why := explain_missing_buttons(name, environ):
            line.say(f"placet: {why}")
    for name in also:
        try:
            reached.setdefault(name, _open_messenger(name, environ))
        except SettingsError as error:
            line.say(f"placet: The message in {name} stays as it is. {error.message}")
    return reached


def _open_messenger(name: str, environ: Mapping[str, str]) -> OpenMessenger:
    heard = read_answerers(name, environ) if can_receive_answers(name, environ) else frozenset()
    return OpenMessenger(open_channel(name, environ), heard)


def build_targets(
    vias: Sequence[str],
    messengers: Iterable[OpenMessenger],
    *,
    line: ProgressLine,
    cases: PendingCases,
    nudge: Callable[[str], object],
) -> list[NotificationTarget]:
    """This screen, where it was named, and each messenger with those who may answer in it."""
    on_screen = frozenset(vias) & frozenset(HERE)
    places: list[NotificationTarget] = [ScreenTarget(on_screen, line)] if on_screen else []
    for one in messengers:
        board = ChannelBridge(one.channel, cases, answerers=one.answerers, nudge=nudge)
        places.append(MessengerTarget(board, bool(one.answerers)))
    return places


def can_receive_answers(via: str, environ: Mapping[str, str]) -> bool:
    """Whether an answer given there reaches this command; a terminal needs someone who can type."""
    return can_listen(via, environ) and (via != "terminal" or sys.stdin.isatty())


class MessengerTarget:
    """A messenger; presses are waited for where there are people who may press."""

    def __init__(self, bridge: ChannelBridge, heard: bool) -> None:
        self._bridge = bridge
        self._heard = heard

    async def tell(self, notice: Notice) -> None:
        """Send, send again, or bring up to date."""
        await self._bridge.tell(notice)

    async def listen(self) -> None:
        """Take presses."""
        if self._heard:
            await self._bridge.listen()

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._bridge.aclose()


class ScreenTarget:
    """This very screen: the link in words, as a QR code, or in the browser."""

    def __init__(self, how: Collection[str], line: ProgressLine) -> None:
        self._how = how
        self._line = line

    async def tell(self, notice: Notice) -> None:
        """Show the link, and again when it is time."""
        if notice.name not in ("told", "reminder"):
            return
        link = notice.case.review_url
        extra = draw_qr_code(link, self._line) if "qr" in self._how else []
        self._line.say(*format_question(notice, self._line), *extra)
        if "browser" in self._how and not await asyncio.to_thread(open_in_browser, link):
            self._line.say("There is no browser here: open the link by hand.")

    async def listen(self) -> None:
        """Nobody answers here."""

    async def aclose(self) -> None:
        """Nothing to let go of."""


def format_question(notice: Notice, line: ProgressLine) -> list[str]:
    """The question, its link whole and alone in its line, and until when an answer counts."""
    card = card_of(notice.case, {}, is_reminder=notice.name == "reminder", round=notice.round)
    earlier = notice.case.previous_case_id
    return [
        "",
        *line.wrap(f"{texts.heading(card)}:"),
        *line.wrap(truncate(to_single_line(card.prompt), LONGEST_PROMPT), INDENT),
        INDENT + mark_hidden(card.review_url),
        *line.wrap(f"{texts.deadline(card)}.", INDENT),
        *line.wrap(texts.silence(card), INDENT),
        *(line.wrap(f"This goes on from {to_single_line(earlier)}.", INDENT) if earlier else ()),
        "",
    ]


def draw_qr_code(link: str, line: ProgressLine) -> list[str]:
    """The link as a QR code, or a word about why there is none."""
    width, seen = qr_width(link), line.live or line.is_screen
    if seen and width > line.columns():
        return [*line.wrap(f"The QR code needs {width} columns; widen this window, or open the link."), ""]
    local = "This address is of this machine alone: a phone cannot open it."
    return [
        *qr_lines(link, coloured=seen and "NO_COLOR" not in os.environ),
        *(line.wrap(local) if urlsplit(link).hostname in LOOPBACK_HOSTS else ()),
        "",
    ]


def open_in_browser(link: str) -> bool:
    """Whether a browser with a window took the link; text browsers would take over this terminal."""
    graphical = sys.platform in ("darwin", "win32")
    if not graphical and not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        return False
    try:
        with _quiet_stdout():
            return webbrowser.open(link)
    except webbrowser.Error:
        return False


@contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Standard output is for the result: what a browser prints goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
