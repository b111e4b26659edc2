"""Ask people in their messengers, so that neither the client nor the model sees the review link."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from placet.agent import ChannelBridge, Notice, PendingCases
from placet.channels.registry import (
    CHANNEL_NAMES,
    can_listen,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.errors import PlacetError
from placet.ports.channel import Channel

MESSENGER_NAMES = tuple(
    name for name in CHANNEL_NAMES if name != "terminal"
)  # standard input belongs to the client

log = logging.getLogger("placet.mcp")


class Messengers:
    """The messengers of one server, each with the user ids that may answer with a button."""

    def __init__(self, channels: Iterable[tuple[Channel, frozenset[str]]], cases: PendingCases) -> None:
        boards = [(ChannelBridge(channel, cases, answerers=ids), bool(ids)) for channel, ids in channels]
        self._boards = [board for board, _ in boards]
        self._listening = [board for board, has_answerers in boards if has_answerers]
        self._listeners: list[asyncio.Task[None]] = []

    @property
    def has_buttons(self) -> bool:
        """Whether anybody may answer with a button."""
        return bool(self._listening)

    def listen(self, nudge: Callable[[str], object]) -> None:
        """Start listening for interactions; call `nudge` with the id of each answered case."""
        for board in self._boards:
            board.nudge = nudge
        self._listeners = [asyncio.create_task(_listen(board)) for board in self._listening]

    async def tell(self, notice: Notice) -> None:
        """Pass a notice to every messenger; raise PlacetError if none of them could send the link."""
        failed = [error for board in self._boards if (error := await _notify(board, notice)) is not None]
        for error in failed:
            log.warning("messenger_failed reason=%s", error.message)
        if failed and notice.name in ("told", "reminder") and len(failed) == len(self._boards):
            raise failed[0]

    async def aclose(self) -> None:
        """Stop listening and close the connections."""
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for board in self._boards:
            await board.aclose()


def open_messengers(
    names: Iterable[str], environ: Mapping[str, str], cases: PendingCases
) -> Messengers | None:
    """Open the messengers with these names; raise SettingsError naming the settings that are missing."""
    channels = [
        (open_channel(name, environ), _read_answerers(name, environ)) for name in dict.fromkeys(names)
    ]
    for why in filter(None, (explain_missing_buttons(name, environ) for name in dict.fromkeys(names))):
        log.warning("%s", why)
    return Messengers(channels, cases) if channels else None


def _read_answerers(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    return read_answerers(name, environ) if can_listen(name, environ) else frozenset()


async def _notify(board: ChannelBridge, notice: Notice) -> PlacetError | None:
    try:
        await board.tell(notice)
    except PlacetError as error:
        return error
    return None


async def _listen(board: ChannelBridge) -> None:
    try:
        await board.listen()
    except PlacetError as error:
        log.warning("messenger_listening_stopped reason=%s", error.message)
