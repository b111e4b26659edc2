"""People who are asked in their own messengers: then neither the client nor the model ever has the link."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from placet.agent import Notice, PendingCases, Switchboard
from placet.channels.registry import (
    CHANNEL_NAMES,
    can_listen,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.errors import PlacetError
from placet.ports.channel import Channel

NAMES = tuple(name for name in CHANNEL_NAMES if name != "terminal")  # standard input belongs to the client

log = logging.getLogger("placet.mcp")


class Messengers:
    """Every messenger of one server, each with those who may answer there by a button."""

    def __init__(self, places: Iterable[tuple[Channel, frozenset[str]]], cases: PendingCases) -> None:
        heard = [(Switchboard(channel, cases, answerers=who), bool(who)) for channel, who in places]
        self._boards = [board for board, _ in heard]
        self._heard = [board for board, is_pressed in heard if is_pressed]
        self._listeners: list[asyncio.Task[None]] = []

    @property
    def has_buttons(self) -> bool:
        """Whether anybody may answer by a button."""
        return bool(self._heard)

    def listen(self, nudge: Callable[[str], object]) -> None:
        """Take presses from now on; `nudge` is told which question to look at."""
        for board in self._boards:
            board.nudge = nudge
        self._listeners = [asyncio.create_task(_listening(board)) for board in self._heard]

    async def tell(self, notice: Notice) -> None:
        """Tell every messenger; raises PlacetError if a link could be put nowhere."""
        failed = [error for board in self._boards if (error := await _told(board, notice)) is not None]
        for error in failed:
            log.warning("a messenger could not be told: %s", error.message)
        if failed and notice.name in ("told", "reminder") and len(failed) == len(self._boards):
            raise failed[0]

    async def aclose(self) -> None:
        """Stop listening, and let go of connections."""
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for board in self._boards:
            await board.aclose()


def open_messengers(
    names: Iterable[str], environ: Mapping[str, str], cases: PendingCases
) -> Messengers | None:
    """The messengers of these names; raises SettingsError naming what one of them needs."""
    places = [(open_channel(name, environ), _answerers(name, environ)) for name in dict.fromkeys(names)]
    for why in filter(None, (explain_missing_buttons(name, environ) for name in dict.fromkeys(names))):
        log.warning("%s", why)
    return Messengers(places, cases) if places else None


def _answerers(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    return read_answerers(name, environ) if can_listen(name, environ) else frozenset()


async def _told(board: Switchboard, notice: Notice) -> PlacetError | None:
    try:
        await board.tell(notice)
    except PlacetError as error:
        return error
    return None


async def _listening(board: Switchboard) -> None:
    try:
        await board.listen()
    except PlacetError as error:
        log.warning("presses are not heard any more: %s", error.message)
