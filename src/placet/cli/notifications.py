"""Show the review link to a person: print it, draw a QR code, open a browser, or use a messenger."""

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
from placet.agent.channel_bridge import ChannelBridge, build_card
from placet.agent.delivery_mode import choose_delivery_mode, has_desktop
from placet.channels import texts
from placet.channels.registry import (
    CHANNEL_NAMES,
    can_listen,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.cli.progress_line import ProgressLine
from placet.cli.qr_code import draw_qr_lines, measure_qr_code
from placet.errors import PlacetError, SettingsError
from placet.ports.channel import Channel
from placet.protocol.addresses import LOOPBACK_HOSTS
from placet.text.characters import mark_hidden
from placet.text.truncation import to_single_line, truncate

AUTO = "auto"
LOCAL_VIAS = (AUTO, "print", "browser", "qr")
VIAS = (*CHANNEL_NAMES, *LOCAL_VIAS)
INDENT = "  "
MAX_PROMPT_LENGTH = 600


class NotificationTarget(Protocol):
    """A way to notify a person."""

    async def tell(self, notice: Notice) -> None:
        """Handle a notice; raise PlacetError if the link could not be shown."""
        ...

    async def listen(self) -> None:
        """Receive answers until cancelled."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class QuestionNotifier:
    """Passes notices to every target of one command and to the progress line."""

    def __init__(self, line: ProgressLine, targets: Sequence[NotificationTarget]) -> None:
        self._line = line
        self._targets = targets
        self._listeners: list[asyncio.Task[None]] = []
        self.last: Notice | None = None

    async def __call__(self, notice: Notice) -> None:
        """Notify every target; print failures, and raise if all targets failed to show the link."""
        if notice.name in ("requested", "opened", "in_progress", "reminder"):
            self.last = notice
        failed = [error for target in self._targets if (error := await self._notify_target(target, notice))]
        if notice.name == "requested" and len(failed) == len(self._targets) > 0:
            raise failed[0]
        for error in failed:
            self._line.say(f"placet: {error.message}")
        self._line.show(notice)

    def listen(self) -> None:
        """Start receiving answers from every target."""
        if not self._listeners:
            self._listeners = [asyncio.create_task(self._listen(target)) for target in self._targets]

    async def aclose(self) -> None:
        """Stop listening and close every target."""
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for target in self._targets:
            await target.aclose()

    async def _notify_target(self, target: NotificationTarget, notice: Notice) -> PlacetError | None:
        try:
            await target.tell(notice)
        except PlacetError as error:
            return error
        return None

    async def _listen(self, target: NotificationTarget) -> None:
        try:
            await target.listen()
        except PlacetError as error:
            self._line.say(f"placet: {error.message}")


class OpenMessenger(Struct, frozen=True):
    """A configured messenger, and the user ids that may answer with a button."""

    channel: Channel
    answerers: frozenset[str]


def open_messengers(
    vias: Sequence[str], also: Sequence[str], environ: Mapping[str, str], line: ProgressLine
) -> dict[str, OpenMessenger]:
    """Open the messengers in `vias`, and those in `also` that are configured.

    Raises SettingsError naming the settings that a messenger in `vias` lacks.
    """
    opened = {via: _open_messenger(via, environ) for via in vias if via not in LOCAL_VIAS}
    for name in opened:
        if why := explain_missing_buttons(name, environ):
            line.say(f"placet: {why}")
    for name in also:
        try:
            opened.setdefault(name, _open_messenger(name, environ))
        except SettingsError as error:
            line.say(f"placet: The message in {name} is not updated. {error.message}")
    return opened


def _open_messenger(name: str, environ: Mapping[str, str]) -> OpenMessenger:
    answerers = read_answerers(name, environ) if can_receive_answers(name, environ) else frozenset()
    return OpenMessenger(open_channel(name, environ), answerers)


def build_targets(
    vias: Sequence[str],
    messengers: Iterable[OpenMessenger],
    *,
    line: ProgressLine,
    cases: PendingCases,
    nudge: Callable[[str], object],
) -> list[NotificationTarget]:
    """Return the targets: this screen if it is among `vias`, and each messenger."""
    on_screen = frozenset(vias) & frozenset(LOCAL_VIAS)
    targets: list[NotificationTarget] = [ScreenTarget(on_screen, line)] if on_screen else []
    for one in messengers:
        bridge = ChannelBridge(one.channel, cases, answerers=one.answerers, nudge=nudge)
        targets.append(MessengerTarget(bridge, has_answerers=bool(one.answerers)))
    return targets


def can_receive_answers(via: str, environ: Mapping[str, str]) -> bool:
    """Return whether answers given there reach this command; a terminal needs a keyboard."""
    return can_listen(via, environ) and (via != "terminal" or sys.stdin.isatty())


class MessengerTarget:
    """A messenger; listens for button presses if anybody may answer with one."""

    def __init__(self, bridge: ChannelBridge, *, has_answerers: bool) -> None:
        self._bridge = bridge
        self._has_answerers = has_answerers

    async def tell(self, notice: Notice) -> None:
        """Send the question, remind, or update the message."""
        await self._bridge.tell(notice)

    async def listen(self) -> None:
        """Receive button presses."""
        if self._has_answerers:
            await self._bridge.listen()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._bridge.aclose()


class ScreenTarget:
    """This screen: prints the link, draws it as a QR code, or opens it in the browser."""

    def __init__(self, how: Collection[str], line: ProgressLine) -> None:
        self._how = how
        self._line = line

    async def tell(self, notice: Notice) -> None:
        """Show the link, and again as a reminder."""
        if notice.name not in ("requested", "reminder"):
            return
        link = notice.case.review_url
        how = self._choose_modes(link, is_reminder=notice.name == "reminder")
        extra = draw_qr_code(link, self._line) if "qr" in how else []
        self._line.say(*format_question(notice, self._line), *extra)
        if "browser" in how and not await asyncio.to_thread(open_in_browser, link):
            self._line.say("No browser was found. Open the link yourself.")

    def _choose_modes(self, link: str, *, is_reminder: bool) -> Collection[str]:
        """Return how to show the link. A reminder opens no second window that nobody asked for."""
        if AUTO not in self._how or is_reminder:
            return self._how
        mode = choose_delivery_mode(
            link,
            environ=os.environ,
            platform=sys.platform,
            is_watched=self._line.live or self._line.is_screen,
        )
        return {*self._how, mode}

    async def listen(self) -> None:
        """Do nothing: the screen takes no answers."""

    async def aclose(self) -> None:
        """Do nothing."""


def format_question(notice: Notice, line: ProgressLine) -> list[str]:
    """Return the lines of a question: its prompt, its link on one line, and its deadline."""
    card = build_card(notice.case, {}, is_reminder=notice.name == "reminder", round=notice.round)
    earlier = notice.case.previous_case_id
    return [
        "",
        *line.wrap(f"{texts.format_heading(card)}:"),
        *line.wrap(truncate(to_single_line(card.prompt), MAX_PROMPT_LENGTH), INDENT),
        INDENT + mark_hidden(card.review_url),
        *line.wrap(f"{texts.format_deadline(card)}.", INDENT),
        *line.wrap(texts.format_no_answer(card), INDENT),
        *(line.wrap(f"This continues {to_single_line(earlier)}.", INDENT) if earlier else ()),
        "",
    ]


def draw_qr_code(link: str, line: ProgressLine) -> list[str]:
    """Return the lines of a QR code, or a reason why it cannot be drawn."""
    width, seen = measure_qr_code(link), line.live or line.is_screen
    if seen and width > line.columns():
        return [*line.wrap(f"The QR code needs {width} columns; widen this window, or open the link."), ""]
    local = "Only this computer can open this link: a phone cannot."
    return [
        *draw_qr_lines(link, coloured=seen and "NO_COLOR" not in os.environ),
        *(line.wrap(local) if urlsplit(link).hostname in LOOPBACK_HOSTS else ()),
        "",
    ]


def open_in_browser(link: str) -> bool:
    """Open the link in a graphical browser; return whether that worked."""
    if not has_desktop(os.environ, sys.platform) and not os.environ.get("BROWSER"):
        return False
    try:
        with _quiet_stdout():
            return webbrowser.open(link)
    except webbrowser.Error:
        return False


@contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Redirect what a browser prints to standard error: standard output is for the result."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
