"""A server that speaks bytes on the loopback address and leaves no connection open."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_connections(converse: Conversation, **options: Any) -> AsyncIterator[int]:
    """Serve each connection with `converse`; yields the port. The end cuts off the connections that are left.

    The garbage collector would find a connection that is open when the test ends, and report it in a later
    test.
    """
    conversations: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        conversations[this] = writer
        await converse(reader, writer)

    if "sock" not in options:
        options = {"host": "127.0.0.1", "port": 0, **options}
    server = await asyncio.start_server(serve, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await end_connections([writer.transport for writer in conversations.values()])
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


async def end_connections(transports: list[asyncio.WriteTransport]) -> None:
    """Cut these connections off, and wait until their sockets are closed."""
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)  # the loop closes a socket in its next round
    await asyncio.sleep(0)
