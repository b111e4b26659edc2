"""Slack's end of Socket Mode on the loopback address: a real WebSocket server, played by the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import WSMsgType, web


class Connection:
    """One connection that the channel made."""

    def __init__(self, socket: web.WebSocketResponse, ticket: str) -> None:
        self.socket = socket
        self.ticket = ticket
        self.acknowledged: asyncio.Queue[str] = asyncio.Queue()
        self.pongs: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def send_message(self, message: dict[str, Any]) -> None:
        await self.socket.send_str(msgspec.json.encode(message).decode())

    async def hello(self) -> None:
        await self.send_message({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})

    async def deliver(self, envelope_id: str, payload: Any, type: str = "interactive") -> None:
        message = {"envelope_id": envelope_id, "type": type, "accepts_response_payload": False}
        await self.send_message({**message, "payload": payload})


class SocketServer:
    def __init__(self) -> None:
        self.url = ""
        self.connections: asyncio.Queue[Connection] = asyncio.Queue()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        connection = Connection(socket, request.query["ticket"])
        self.connections.put_nowait(connection)
        async for message in socket:
            if message.type == WSMsgType.PONG:
                connection.pongs.put_nowait(message.data)
            elif message.type == WSMsgType.TEXT:
                connection.acknowledged.put_nowait(msgspec.json.decode(message.data)["envelope_id"])
        connection.closed.set()
        return socket


@asynccontextmanager
async def socket_server() -> AsyncIterator[SocketServer]:
    server = SocketServer()
    runner = web.ServerRunner(web.Server(server.answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"ws://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
