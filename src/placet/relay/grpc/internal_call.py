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
from placet.relay.asgi import App, Message, Scope
from placet.relay.traffic.proxy import PREFIX
from placet.relay.upstream.agent_client import EVENTS_TYPE

Header = tuple[bytes, bytes]
MAX_QUEUED = 16


class InternalCall:
    """One call to the relay's app, answered as a stream of documents: one of them, or many events."""

    def __init__(self, app: App, call: A2ACall, agent_id: str, headers: list[Header], *, limit: int) -> None:
        self._app = app
        self._body = call.body()
        self._scope = _build_scope(call, agent_id, headers)
        self._limit = limit
        self._left = asyncio.Event()
        self._asked = False
        # A caller that does not read holds up its own call, and nothing else.
        self._said: asyncio.Queue[Message | None] = asyncio.Queue(MAX_QUEUED)

    async def documents(self) -> AsyncGenerator[Any, None]:
        """What the relay answers, decoded; raises what the relay raises."""
        job = asyncio.create_task(self._run())
        try:
            async with aclosing(self._read()) as documents:
                async for document in documents:
                    yield document
            await job
        finally:
            self._left.set()
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._said.put)
        finally:
            await self._said.put(None)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _read(self) -> AsyncGenerator[Any, None]:
        begun, streamed, whole = False, False, bytearray()
        splitter = EventSplitter(limit=self._limit)
        while (message := await self._said.get()) is not None:
            if message["type"] == "http.response.start":
                begun = True
                kinds = [value for name, value in message["headers"] if name == b"content-type"]
                streamed = bool(kinds) and kinds[0].decode("latin-1").startswith(EVENTS_TYPE)
            elif streamed:
                for event in splitter.feed(message.get("body", b"")):
                    data = get_event_data(event)
                    if data is not None:
                        yield _decode_document(data)
            else:
                whole += message.get("body", b"")
        if begun and not streamed:
            yield _decode_document(bytes(whole))


def _build_scope(call: A2ACall, agent_id: str, headers: list[Header]) -> Scope:
    return {
        "type": "http",
        "method": call.method,
        "path": f"{PREFIX}{agent_id}{unquote(call.path)}",
        "root_path": "",
        "query_string": call.query.encode(),
        "headers": headers,
        "placet.transport": "GRPC",
    }


def _decode_document(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise A2AError("agent_response", "The agent's answer is not valid JSON.") from None
