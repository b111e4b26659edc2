"""Socket Mode: Slack's interactions over a connection that we open, for agents without a public address.

Every message is acknowledged as it comes, however long its presses take to be dealt with.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from placet.channels.calling import Sleep, break_after
from placet.channels.slack.presses import Envelope, presses_of, read_envelope, read_interaction
from placet.errors import SettingsError, Unreachable
from placet.ports.channel import Press
from placet.protocol.addresses import LOOPBACK_HOSTS

OPEN_WITHIN_S = 15.0
SILENT_FOR_S = 60.0
"""Slack pings several times a minute; a connection that is silent for longer is a dead one."""
LARGEST = 1024 * 1024
SWITCHED_OFF = "link_disabled"

Presses = tuple[Press, ...]


class SocketMode:
    """One connection after the other; `ticket` asks Slack for the address of the next."""

    def __init__(
        self,
        ticket: Callable[[], Awaitable[str]],
        *,
        sleep: Sleep = asyncio.sleep,
        silent_for_s: float = SILENT_FOR_S,
    ) -> None:
        self._ticket = ticket
        self._sleep = sleep
        self._silent_for_s = silent_for_s

    async def presses(self) -> AsyncGenerator[Presses]:
        """Presses as they come; goes on through lost connections.

        Raises SettingsError once Socket Mode is switched off, ChannelRefused for a wrong token.
        """
        queue: asyncio.Queue[Presses] = asyncio.Queue()
        reader = asyncio.create_task(self._read_on(queue))
        try:
            while True:
                yield await _next_presses(queue, reader)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read_on(self, queue: asyncio.Queue[Presses]) -> None:
        failures = 0
        while True:
            try:
                greeted = await self._read_one(await self._ticket(), queue)
            except Unreachable:
                greeted = False
            failures = 0 if greeted else failures + 1
            if failures:
                await self._sleep(break_after(failures))

    async def _read_one(self, url: str, queue: asyncio.Queue[Presses]) -> bool:
        """Read one connection to its end; whether Slack had greeted us on it."""
        greeted = False
        try:
            async with _session(url) as http, _connected(http, url) as socket:
                while (envelope := await self._next(socket)) is not None:
                    greeted |= envelope.type == "hello"
                    if envelope.type == "disconnect":
                        _check_switched_on(envelope)
                        break
                    if envelope.envelope_id:
                        await socket.send_str(_acknowledgement(envelope))
                    if presses := _presses(envelope):
                        queue.put_nowait(presses)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # The text of these errors names the address, which is a credential: nothing is said of it.
            return greeted
        return greeted

    async def _next(self, socket: aiohttp.ClientWebSocketResponse) -> Envelope | None:
        """The next readable message, or None at the end of the connection."""
        while True:
            message = await socket.receive(self._silent_for_s)
            if message.type == aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PONG):
                return None
            elif (envelope := read_envelope(message.data)) is not None:
                return envelope


async def _next_presses(queue: asyncio.Queue[Presses], reader: asyncio.Task[None]) -> Presses:
    """The next presses; raises what ended the reader, once all that it brought is taken."""
    getter = asyncio.create_task(queue.get())
    try:
        await asyncio.wait({getter, reader}, return_when=asyncio.FIRST_COMPLETED)
        if not getter.done():
            reader.result()
        return await getter
    finally:
        getter.cancel()


def _presses(envelope: Envelope) -> Presses:
    return presses_of(read_interaction(envelope.payload)) if envelope.type == "interactive" else ()


def _check_switched_on(envelope: Envelope) -> None:
    if envelope.reason == SWITCHED_OFF:
        raise SettingsError("Socket Mode is switched off for this app; switch it on in the app's settings.")


def _acknowledgement(envelope: Envelope) -> str:
    return msgspec.json.encode({"envelope_id": envelope.envelope_id}).decode()


def _session(url: str) -> aiohttp.ClientSession:
    is_local = urlsplit(url).hostname in LOOPBACK_HOSTS
    return aiohttp.ClientSession(trust_env=not is_local, headers={"User-Agent": "placet"})


def _connected(http: aiohttp.ClientSession, url: str) -> Any:
    # Pings are answered by hand, so that each of them shows that the connection lives.
    timeout = aiohttp.ClientWSTimeout(ws_close=OPEN_WITHIN_S)
    return http.ws_connect(url, autoping=False, max_msg_size=LARGEST, timeout=timeout)
