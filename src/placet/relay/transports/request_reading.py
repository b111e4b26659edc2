"""Read requests in the relay's raw ASGI applications."""

import asyncio
from collections.abc import Awaitable, Callable

from placet.errors import ValidationFailed
from placet.http.asgi import Receive, Scope, Send
from placet.ports.identity import Principal
from placet.relay.settings import RelayLimits

App = Callable[[Scope, Receive, Send], Awaitable[None]]
ReadBody = Callable[[Scope, Receive, int], Awaitable[bytes]]
"""Reads a request body of at most the given number of bytes."""
Authenticate = Callable[[Scope], Awaitable[Principal]]
"""Returns the principal of a request, or raises."""


async def read_body_in_time(
    read_body: ReadBody, scope: Scope, receive: Receive, limits: RelayLimits, *, noun: str
) -> bytes:
    """Read the request body within the time and size limits; raise if it exceeds one."""
    try:
        async with asyncio.timeout(limits.read_for.total_seconds()):
            return await read_body(scope, receive, limits.max_message_bytes)
    except TimeoutError:
        seconds = limits.read_for.total_seconds()
        raise ValidationFailed(
            f"The {noun} did not arrive within {seconds:g} seconds. Send it again."
        ) from None
