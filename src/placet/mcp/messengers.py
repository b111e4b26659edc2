"""Ask people in their messengers, so that neither the client nor the model sees the review link."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from placet.agent import ChannelBridge, Notice, PendingCases
from placet.channels.registry import (
    can_listen,
    explain_missing_buttons,
    open_channel,
    read_answerers,
)
from placet.errors import PlacetError
from placet.ports.channel import Channel

log = logging.getLogger("placet.mcp")


class Messengers:
    """The messengers of one server, each with the user ids that may answer with a button."""

    def __init__(self, channels: Iterable[tuple[Channel, frozenset[str]]], cases: PendingCases) -> None:
        bridges = [
            (ChannelBridge(channel, cases, answerers=ids, nudge=self._nudge), bool(ids))
            for channel, ids in channels
        ]
        self._bridges = [bridge for bridge, _ in bridges]
        self._listening = [bridge for bridge, has_answerers in bridges if has_answerers]
        self._listeners: list[asyncio.Task[None]] = []
        self._on_answer: Callable[[str], object] = lambda case_id: None

    @property
    def has_buttons(self) -> bool:
        """Whether anybody may answer with a button."""
        return bool(self._listening)

    def listen(self, nudge: Callable[[str], object]) -> None:
        """Start listening for interactions; call `nudge` with the id of each answered case."""
        self._on_answer = nudge
        self._listeners = [asyncio.create_task(_listen(bridge)) for bridge in self._listening]

    def _nudge(self, case_id: str) -> None:
        self._on_answer(case_id)

    async def tell(self, notice: Notice) -> None:
        """Pass a notice to every messenger; raise PlacetError if none of them could send the link."""
        failed = [error for bridge in self._bridges if (error := await _notify(bridge, notice)) is not None]
        for error in failed:
            log.warning("messenger_failed reason=%s", error.message)
        if failed and notice.name in ("requested", "reminder") and len(failed) == len(self._bridges):
            raise failed[0]

    async def aclose(self) -> None:
        """Stop listening and close the connections."""
        for task in self._listeners:
            task.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for bridge in self._bridges:
            await bridge.aclose()


def open_messengers(
    names: Iterable[str], environ: Mapping[str, str], cases: PendingCases
) -> Messengers | None:
    """Open the messengers with these names; raise SettingsError naming the settings that are missing."""
    channels = [
        (open_channel(name, environ), _read_answerers(name, environ)) for name in dict.fromkeys(names)
    ]
    for why in filter(None, (explain_missing_buttons(name, environ) for name in dict.fromkeys(names))):
        log.warning("messenger_without_buttons reason=%s", why)
    return Messengers(channels, cases) if channels else None


def _read_answerers(name: str, environ: Mapping[str, str]) -> frozenset[str]:
    return read_answerers(name, environ) if can_listen(name, environ) else frozenset()


async def _notify(bridge: ChannelBridge, notice: Notice) -> PlacetError | None:
    try:
        await bridge.tell(notice)
    except PlacetError as error:
        return error
    return None


async def _listen(bridge: ChannelBridge) -> None:
    try:
        await bridge.listen()
    except PlacetError as error:
        log.warning("messenger_listening_stopped reason=%s", error.message)
