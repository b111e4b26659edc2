"""One connection to an agent: HTTP/1.1, an exchange at a time, and whatever misbehaves ends it.

The parser is that of the server, llhttp. Who asks bounds the time and the size of an answer.
"""

import asyncio
import select
import socket
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import httptools

from placet.relay.upstream.deadlines import Deadlines
from placet.relay.upstream.errors import ConnectionClosed, InvalidHttpResponse, ResponseTruncated

MAX_FIELD_BYTES = 8 * 1024
MAX_HEAD_BYTES = 64 * 1024
"""So much may come that is no body: the parser keeps a field of a head or a trailer until it ends."""
MAX_BUFFERED = 128 * 1024
"""With more than this unread, no more is taken from the agent."""

Origin = tuple[str, str, int]


class ConnectionOwner(Protocol):
    """The pool that a connection belongs to."""

    def release(self, connection: "Connection") -> None:
        """Return a connection to the pool."""
        ...

    def forget_connection(self, connection: "Connection") -> None:
        """Remove a closed connection from the pool."""
        ...


class UpstreamResponse:
    """An answer: its head, and its body as it comes."""

    def __init__(self, connection: "Connection", status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        """By lower-case name; of several of one name, the first."""
        self._connection = connection
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._whole = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def content_length(self) -> int | None:
        """What the agent says how large the body is."""
        told = self.headers.get("content-length", "")
        return int(told) if told.isascii() and told.isdigit() and len(told) < 19 else None

    @property
    def whole(self) -> bool:
        """Whether all of it has come."""
        return self._whole

    @property
    def ready(self) -> bool:
        """Whether `read_some` returns at once."""
        return bool(self._chunks) or self._whole or self._failure is not None

    async def read_some(self) -> bytes:
        """All that has come and was not read yet; empty at the end. Raises BadHttp, BrokenOff."""
        while not self._chunks:
            if self._whole:
                return b""
            if self._failure is not None:
                raise self._failure
            self._waiter = self._connection.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunks, self._chunks = self._chunks, []
        if self._buffered > MAX_BUFFERED and not self._whole:
            self._connection.resume()
        self._buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_now(self) -> bytes | None:
        """All of a body that has come and of which nothing was read; None if it may not be all there is."""
        if not self._whole:
            return None
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Let go of it; a connection with an answer that nobody read to its end is of no more use."""
        if not self._whole:
            self._connection.abort()

    def feed(self, pieces: list[bytes]) -> None:
        """More of the body."""
        self._chunks += pieces
        self._buffered += sum(map(len, pieces))
        if self._buffered > MAX_BUFFERED:
            self._connection.pause()
        self._wake()

    def end(self, failure: Exception | None = None) -> None:
        """The body is whole, or will never be."""
        if not self._whole and self._failure is None:
            self._whole, self._failure = failure is None, failure
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PendingRequest:
    """A request that was sent and waits for its response. `over` is called when it ends."""

    __slots__ = ("_bound", "_connection", "_future", "_over", "_response")

    def __init__(
        self, connection: "Connection", bound: "Deadlines[PendingRequest] | None", over: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._bound = bound
        self._over = over
        self._response: UpstreamResponse | None = None
        self._future: asyncio.Future[None] = connection.loop.create_future()
        if bound is not None:
            bound.add(self)

    async def head(self) -> UpstreamResponse:
        """The head of the answer; raises BadHttp, and OSError if the connection ends."""
        while self._response is None:
            try:
                await self._future
            except asyncio.CancelledError:
                self.give_up()
                raise
        return self._response

    async def wait_for_head(self, early: "Deadlines[PendingRequest]") -> UpstreamResponse | None:
        """The same; None if it has not come by then, with nothing lost: it may be waited for again."""
        early.add(self)
        try:
            await self._future
        except asyncio.CancelledError:
            self.give_up()
            raise
        finally:
            early.remove(self)
        return self._response

    def interrupt(self) -> None:
        """Wake the waiter for the response head."""
        if not self._future.done():
            waiting, self._future = self._future, self._connection.loop.create_future()
            waiting.set_result(None)

    def time_out(self) -> None:
        """It took too long."""
        self._connection.fail(self, TimeoutError("the answer took too long"))

    def give_up(self) -> None:
        """Abandon the request."""
        if self._response is not None:
            self._response.close()
        else:
            self._future.cancel()
            self._connection.drop(self)

    def settle(self, response: UpstreamResponse) -> None:
        """The head is there."""
        self._response = response
        if not self._future.done():
            self._future.set_result(None)

    def fail(self, failure: Exception) -> None:
        """There will be no more than there is."""
        if self._response is not None:
            self._response.end(failure)
        elif not self._future.done():
            self._future.set_exception(failure)

    def end(self) -> None:
        """The exchange is over."""
        if self._bound is not None:
            self._bound.remove(self)
        self._over()


class Connection(asyncio.Protocol):
    """One connection, with one exchange at a time."""

    def __init__(self, keeper: ConnectionOwner, origin: Origin) -> None:
        self.loop = asyncio.get_running_loop()
        self.origin = origin
        self.idle_since = 0.0
        self._keeper = keeper
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._news = select.poll()
        self._asked: PendingRequest | None = None
        self._response: UpstreamResponse | None = None
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._field_bytes = 0
        self._bodiless_bytes = 0
        """How much has come since the last piece of a body, or the beginning."""
        self._paused = False
        self._expected = False
        """Whether an answer is due, or under way."""
        self._keep_alive = False
        self._spoiled = False

    @property
    def usable(self) -> bool:
        """Whether another request may be sent: nothing has come, not even what the loop has yet to read."""
        if self._transport is None or self._spoiled or self._transport.is_closing():
            return False
        return not self._news.poll(0)

    def send(
        self, request: bytes, bound: Deadlines[PendingRequest] | None, over: Callable[[], None]
    ) -> PendingRequest:
        """Send a request over a connection that is usable."""
        asked = PendingRequest(self, bound, over)
        self._asked, self._response, self._expected = asked, None, True
        self._field_bytes = self._bodiless_bytes = 0
        if self._transport is not None:
            self._transport.write(request)
        return asked

    def drop(self, asked: PendingRequest) -> None:
        """End it, if this is what it is waiting for."""
        if self._asked is asked:
            self.abort()

    def fail(self, asked: PendingRequest, failure: Exception) -> None:
        """The same for a reason that whoever waits is told."""
        if self._asked is asked:
            asked.fail(failure)
            self.abort()

    def _is_sending(self) -> bool:
        """Whether the agent has answered without having taken all of the request, and may never do."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Close, whatever is under way."""
        self._spoiled = True
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Take no more from the agent for now."""
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        if self._transport is not None and self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        own: socket.socket | None = transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._news.register(own.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if not self._expected:
            self.abort()  # nobody asked: whatever this is, it must not become the answer to the next request
            return
        try:
            try:
                self._parser.feed_data(data)
            finally:
                self._hand_on(len(data))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, InvalidHttpResponse) as error:
            failure = InvalidHttpResponse("the agent does not speak HTTP")
            failure.__cause__ = error
            if self._asked is not None:
                self.fail(self._asked, failure)
            return
        if not self._expected:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        by_the_agent = error is None and not self._spoiled
        self._spoiled = True
        self._keeper.forget_connection(self)
        asked, self._asked = self._asked, None
        if asked is None:
            return
        response = self._response
        if response is None:
            asked.fail(ConnectionClosed("the agent hung up"))
        else:
            unbounded = not {"content-length", "transfer-encoding"} & response.headers.keys()
            response.end(None if unbounded and by_the_agent else ResponseTruncated("the answer broke off"))
        asked.end()

    # What the parser calls

    def on_message_begin(self) -> None:
        if not self._expected:
            self._spoiled = True
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        self._field_bytes += size
        if size > MAX_FIELD_BYTES or self._field_bytes > MAX_HEAD_BYTES:
            raise InvalidHttpResponse("a header of the answer is too large")
        if self._response is None:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._spoiled or 100 <= status < 200:
            return  # the answer itself comes after it
        self._field_bytes = 0
        self._keep_alive = self._parser.should_keep_alive()
        self._response = UpstreamResponse(self, status, self._headers)
        if self._asked is not None:
            self._asked.settle(self._response)

    def on_body(self, body: bytes) -> None:
        if self._expected:
            self._pieces.append(body)  # a stream has hundreds in one read: they are handed on together

    def on_message_complete(self) -> None:
        if self._response is not None:
            self._expected = False

    def _hand_on(self, size: int) -> None:
        """Give the pieces of a body to whoever reads it; what comes without any must not go on for ever."""
        pieces, self._pieces = self._pieces, []
        if pieces and self._response is not None:
            self._bodiless_bytes = 0
            self._response.feed(pieces)
            return
        self._bodiless_bytes += size
        if self._bodiless_bytes > MAX_HEAD_BYTES:
            raise InvalidHttpResponse("the answer has too much that is no body")

    def _finish(self) -> None:
        asked, self._asked = self._asked, None
        if self._response is not None:
            self._response.end()
        if asked is not None:
            asked.end()
        if self._spoiled or not self._keep_alive or self._is_sending():
            self.abort()
        else:
            self.resume()
            self._keeper.release(self)
