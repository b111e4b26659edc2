"""What the relay's doors in raw ASGI have in common: their words, the path that is meant, a body in time."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from placet.errors import ValidationFailed
from placet.ports.identity import Principal
from placet.relay.limits import RelayLimits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
ReadBody = Callable[[Scope, Receive, int], Awaitable[bytes]]
"""Reads a whole body of at most so many bytes."""
Authenticate = Callable[[Scope], Awaitable[Principal]]
"""Says who makes a request, or raises."""


def get_path_below(scope: Scope, prefix: str) -> str:
    """The path below a door's own, wherever the server is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return (path[len(root) :] if root and path.startswith(root) else path)[len(prefix) :]


async def read_body_in_time(
    read_body: ReadBody, scope: Scope, receive: Receive, limits: RelayLimits, *, noun: str
) -> bytes:
    """The body, if it is not too large and whoever sends it does not take too long; raises for what is."""
    try:
        async with asyncio.timeout(limits.read_for.total_seconds()):
            return await read_body(scope, receive, limits.max_message_bytes)
    except TimeoutError:
        raise ValidationFailed(f"The {noun} did not arrive in time.") from None
