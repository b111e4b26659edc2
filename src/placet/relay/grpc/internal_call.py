"""Call the relay's ASGI application in process, so that gRPC uses the same checks as HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

import msgspec

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.sse import EventSplitter, get_event_data
from placet.relay.asgi import App, AsgiMessage, Scope
from placet.relay.route_addresses import AGENT_PROXY
from placet.relay.upstream.agent_client import EVENTS_TYPE

Header = tuple[bytes, bytes]
MAX_QUEUED = 16


class InternalCall:
    """One call to the relay's ASGI application, whose response is read as a stream of JSON documents."""

    def __init__(self, app: App, call: A2ACall, agent_id: str, headers: list[Header], *, limit: int) -> None:
        self._app = app
        self._body = call.body()
        self._scope = _build_scope(call, agent_id, headers)
        self._limit = limit
        self._disconnected = asyncio.Event()
        self._body_sent = False
        # The queue is bounded, so that a caller that does not read delays only its own call.
        self._messages: asyncio.Queue[AsgiMessage | None] = asyncio.Queue(MAX_QUEUED)

    async def documents(self) -> AsyncGenerator[Any, None]:
        """Yield the documents of the response. Raises the exceptions of the relay."""
        task = asyncio.create_task(self._run())
        try:
            async with aclosing(self._read()) as documents:
                async for document in documents:
                    yield document
            await task
        finally:
            self._disconnected.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._messages.put)
        finally:
            await self._messages.put(None)

    async def _receive(self) -> AsgiMessage:
        if not self._body_sent:
            self._body_sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _read(self) -> AsyncGenerator[Any, None]:
        started, streamed, body = False, False, bytearray()
        splitter = EventSplitter(limit=self._limit)
        while (message := await self._messages.get()) is not None:
            if message["type"] == "http.response.start":
                started = True
                types = [value for name, value in message["headers"] if name == b"content-type"]
                streamed = bool(types) and types[0].decode("latin-1").startswith(EVENTS_TYPE)
            elif streamed:
                for event in splitter.feed(message.get("body", b"")):
                    data = get_event_data(event)
                    if data is not None:
                        yield _decode_document(data)
            else:
                body += message.get("body", b"")
        if started and not streamed:
            yield _decode_document(bytes(body))


def _build_scope(call: A2ACall, agent_id: str, headers: list[Header]) -> Scope:
    return {
        "type": "http",
        "method": call.method,
        "path": f"{AGENT_PROXY}{agent_id}{unquote(call.path)}",
        "root_path": "",
        "query_string": call.query.encode(),
        "headers": headers,
        "placet.transport": "GRPC",
    }


def _decode_document(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise A2AError("agent_response", "The agent's response is not valid JSON.") from None
