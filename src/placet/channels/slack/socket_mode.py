"""Socket Mode: receive Slack's payloads over a WebSocket that we open, without a public address.

Every message is acknowledged on arrival, independent of how long its interactions take to handle.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from placet.channels.platform_api import Sleep, calculate_backoff_s
from placet.channels.slack.interactions import (
    SlackEnvelope,
    interactions_from_payload,
    read_envelope,
    read_interaction,
)
from placet.errors import SettingsError, Unreachable
from placet.ports.channel import Interaction
from placet.protocol.addresses import LOOPBACK_HOSTS

CONNECT_TIMEOUT_S = 15.0
IDLE_TIMEOUT_S = 60.0
"""Slack pings several times a minute; a connection idle for longer is considered lost."""
MAX_MESSAGE_BYTES = 1024 * 1024
DISABLED_REASON = "link_disabled"

Interactions = tuple[Interaction, ...]


class SocketMode:
    """Keeps one connection open; `open_url` requests the URL of the next one from Slack."""

    def __init__(
        self,
        open_url: Callable[[], Awaitable[str]],
        *,
        sleep: Sleep = asyncio.sleep,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> None:
        self._open_url = open_url
        self._sleep = sleep
        self._idle_timeout_s = idle_timeout_s

    async def interactions(self) -> AsyncGenerator[Interactions]:
        """Yield interactions as they arrive; reconnect when the connection is lost.

        Raises SettingsError when Socket Mode is disabled, ChannelRefused for a wrong token.
        """
        queue: asyncio.Queue[Interactions] = asyncio.Queue()
        reader = asyncio.create_task(self._read_on(queue))
        try:
            while True:
                yield await _wait_for_interactions(queue, reader)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read_on(self, queue: asyncio.Queue[Interactions]) -> None:
        failures = 0
        while True:
            try:
                greeted = await self._read_one(await self._open_url(), queue)
            except Unreachable:
                greeted = False
            failures = 0 if greeted else failures + 1
            if failures:
                await self._sleep(calculate_backoff_s(failures))

    async def _read_one(self, url: str, queue: asyncio.Queue[Interactions]) -> bool:
        """Read one connection until it ends; return whether Slack sent its hello message."""
        greeted = False
        try:
            async with _create_session(url) as http, _connect(http, url) as socket:
                while (envelope := await self._read_envelope(socket)) is not None:
                    greeted |= envelope.type == "hello"
                    if envelope.type == "disconnect":
                        _check_enabled(envelope)
                        break
                    if envelope.envelope_id:
                        await socket.send_str(_encode_acknowledgement(envelope))
                    if interactions := _interactions_from_envelope(envelope):
                        queue.put_nowait(interactions)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # Not logged: the text of these errors contains the URL, which is a credential.
            return greeted
        return greeted

    async def _read_envelope(self, socket: aiohttp.ClientWebSocketResponse) -> SlackEnvelope | None:
        """Return the next message that can be parsed, or None at the end of the connection."""
        while True:
            message = await socket.receive(self._idle_timeout_s)
            if message.type == aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PONG):
                return None
            elif (envelope := read_envelope(message.data)) is not None:
                return envelope


async def _wait_for_interactions(
    queue: asyncio.Queue[Interactions], reader: asyncio.Task[None]
) -> Interactions:
    """Return the next interactions; after the last ones, raise the error that ended the reader."""
    getter = asyncio.create_task(queue.get())
    try:
        await asyncio.wait({getter, reader}, return_when=asyncio.FIRST_COMPLETED)
        if not getter.done():
            reader.result()
        return await getter
    finally:
        getter.cancel()


def _interactions_from_envelope(envelope: SlackEnvelope) -> Interactions:
    return (
        interactions_from_payload(read_interaction(envelope.payload))
        if envelope.type == "interactive"
        else ()
    )


def _check_enabled(envelope: SlackEnvelope) -> None:
    if envelope.reason == DISABLED_REASON:
        raise SettingsError("Socket Mode is disabled for this app. Enable it in the app's settings.")


def _encode_acknowledgement(envelope: SlackEnvelope) -> str:
    return msgspec.json.encode({"envelope_id": envelope.envelope_id}).decode()


def _create_session(url: str) -> aiohttp.ClientSession:
    is_local = urlsplit(url).hostname in LOOPBACK_HOSTS
    return aiohttp.ClientSession(trust_env=not is_local, headers={"User-Agent": "placet"})


def _connect(http: aiohttp.ClientSession, url: str) -> Any:
    # Pings are answered here, so that each one resets the idle timeout.
    timeout = aiohttp.ClientWSTimeout(ws_close=CONNECT_TIMEOUT_S)
    return http.ws_connect(url, autoping=False, max_msg_size=MAX_MESSAGE_BYTES, timeout=timeout)
