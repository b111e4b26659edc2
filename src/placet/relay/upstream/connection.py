"""One HTTP connection to an agent: its deadlines, its errors, and the response that is read from it."""

import asyncio
import select
import socket
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, Protocol, TypeVar, cast

import httptools

T = TypeVar("T", bound=Hashable)
MAX_FIELD_BYTES = 8 * 1024
MAX_HEAD_BYTES = 64 * 1024
"""Limit of bytes without body data, because the parser buffers each field of a head or trailer."""
MAX_BUFFERED_BYTES = 128 * 1024
"""With more unread bytes than this, reading from the agent pauses."""


class ConnectTimeout(TimeoutError):
    """No connection could be opened in time. Nothing was sent."""


class InvalidHttpResponse(Exception):
    """The response is not valid HTTP."""


class ResponseTruncated(Exception):
    """The connection closed before the response was complete."""


class ConnectionClosed(ConnectionResetError):
    """The connection closed before a response. The agent may have received the request."""


class Deadlines(Generic[T]):
    """Calls `on_timeout` with each item that is not removed within `within_s` seconds."""

    def __init__(self, within_s: float, on_timeout: Callable[[T], None]) -> None:
        self.within_s = within_s
        self._on_timeout = on_timeout
        self._deadlines: dict[T, float] = {}
        """Sorted by deadline, because all items have the same timeout."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: T) -> None:
        """Add an item. An item that was already added gets a new deadline."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.within_s
        self._deadlines.pop(one, None)
        self._deadlines[one] = deadline
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire_due)

    def remove(self, one: T) -> None:
        """Remove an item."""
        self._deadlines.pop(one, None)

    def _expire_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._deadlines:
            one, deadline = next(iter(self._deadlines.items()))
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._expire_due)
                return
            del self._deadlines[one]
            self._on_timeout(one)


Origin = tuple[str, str, int]


class ConnectionPool(Protocol):
    """The pool that a connection belongs to."""

    def release(self, connection: "Connection") -> None:
        """Return a connection to the pool."""
        ...

    def remove(self, connection: "Connection") -> None:
        """Remove a closed connection from the pool."""
        ...


class UpstreamResponse:
    """A response: its head, and its body as it arrives."""

    def __init__(self, connection: "Connection", status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        """Headers by lower-case name. Of several with the same name, the first."""
        self._connection = connection
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._whole = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def content_length(self) -> int | None:
        """Return the `content-length` header as a number, or None."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None

    @property
    def whole(self) -> bool:
        """Return whether the whole body has arrived."""
        return self._whole

    @property
    def ready(self) -> bool:
        """Return whether `read_some` returns without waiting."""
        return bool(self._chunks) or self._whole or self._failure is not None

    async def read_some(self) -> bytes:
        """Return the unread bytes, or wait for some; empty at the end.

        Raises InvalidHttpResponse and ResponseTruncated.
        """
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
        if self._buffered > MAX_BUFFERED_BYTES and not self._whole:
            self._connection.resume()
        self._buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_now(self) -> bytes | None:
        """Return the whole unread body; None if it has not arrived completely."""
        if not self._whole:
            return None
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Release the response. The connection is closed if the response was not received completely."""
        if not self._whole:
            self._connection.abort()

    def feed(self, pieces: list[bytes]) -> None:
        """Add received parts of the body."""
        self._chunks += pieces
        self._buffered += sum(map(len, pieces))
        if self._buffered > MAX_BUFFERED_BYTES:
            self._connection.pause()
        self._wake()

    def end(self, failure: Exception | None = None) -> None:
        """Mark the body as complete, or as failed."""
        if not self._whole and self._failure is None:
            self._whole, self._failure = failure is None, failure
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PendingRequest:
    """A request that was sent and waits for its response. `on_end` is called when it ends."""

    __slots__ = ("_connection", "_deadlines", "_future", "_on_end", "_response")

    def __init__(
        self,
        connection: "Connection",
        deadlines: "Deadlines[PendingRequest] | None",
        on_end: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._on_end = on_end
        self._response: UpstreamResponse | None = None
        self._future: asyncio.Future[None] = connection.loop.create_future()
        if deadlines is not None:
            deadlines.add(self)

    async def head(self) -> UpstreamResponse:
        """Return the head of the response; raise InvalidHttpResponse, or OSError if the connection closes."""
        while self._response is None:
            try:
                await self._future
            except asyncio.CancelledError:
                self.give_up()
                raise
        return self._response

    async def wait_for_head(self, early: "Deadlines[PendingRequest]") -> UpstreamResponse | None:
        """Return the head of the response; None after the deadline `early`. Can be called again then."""
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
        """Wake the task that waits for the response head."""
        if not self._future.done():
            waiting, self._future = self._future, self._connection.loop.create_future()
            waiting.set_result(None)

    def time_out(self) -> None:
        """Fail the request because it took too long."""
        self._connection.fail(self, TimeoutError("the response took too long"))

    def give_up(self) -> None:
        """Abandon the request."""
        if self._response is not None:
            self._response.close()
        else:
            self._future.cancel()
            self._connection.drop(self)

    def set_response(self, response: UpstreamResponse) -> None:
        """Set the response when its head has arrived."""
        self._response = response
        if not self._future.done():
            self._future.set_result(None)

    def fail(self, failure: Exception) -> None:
        """Fail the request or the rest of its response."""
        if self._response is not None:
            self._response.end(failure)
        elif not self._future.done():
            self._future.set_exception(failure)

    def end(self) -> None:
        """End the request: stop its deadline and call `on_end`."""
        if self._deadlines is not None:
            self._deadlines.remove(self)
        self._on_end()


class Connection(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self, pool: ConnectionPool, origin: Origin) -> None:
        self.loop = asyncio.get_running_loop()
        self.origin = origin
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._poller = select.poll()
        self._pending: PendingRequest | None = None
        self._response: UpstreamResponse | None = None
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._field_bytes = 0
        self._non_body_bytes = 0
        """Bytes received since the last body data, or since the request."""
        self._paused = False
        self._is_awaiting = False
        """Whether a response is expected or being received."""
        self._keep_alive = False
        self._is_broken = False

    @property
    def usable(self) -> bool:
        """Return whether a request may be sent: the connection is open and has no unread bytes."""
        if self._transport is None or self._is_broken or self._transport.is_closing():
            return False
        return not self._poller.poll(0)

    def send(
        self, request: bytes, deadlines: Deadlines[PendingRequest] | None, on_end: Callable[[], None]
    ) -> PendingRequest:
        """Send a request. The connection must be usable."""
        pending = PendingRequest(self, deadlines, on_end)
        self._pending, self._response, self._is_awaiting = pending, None, True
        self._field_bytes = self._non_body_bytes = 0
        if self._transport is not None:
            self._transport.write(request)
        return pending

    def drop(self, pending: PendingRequest) -> None:
        """Close the connection if this request is the current one."""
        if self._pending is pending:
            self.abort()

    def fail(self, pending: PendingRequest, failure: Exception) -> None:
        """Fail the request and close the connection if it is the current one."""
        if self._pending is pending:
            pending.fail(failure)
            self.abort()

    def _is_sending(self) -> bool:
        """Return whether part of the request is unsent. The agent may respond early and never read it."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_broken = True
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading from the agent."""
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue to read from the agent."""
        if self._transport is not None and self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._poller.register(connected.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if not self._is_awaiting:
            self.abort()  # unsolicited bytes must not become the response to the next request
            return
        try:
            try:
                self._parser.feed_data(data)
            finally:
                self._deliver_body(len(data))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, InvalidHttpResponse) as error:
            failure = InvalidHttpResponse("the agent's response is not valid HTTP")
            failure.__cause__ = error
            if self._pending is not None:
                self.fail(self._pending, failure)
            return
        if not self._is_awaiting:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        is_closed_by_agent = error is None and not self._is_broken
        self._is_broken = True
        self._pool.remove(self)
        pending, self._pending = self._pending, None
        if pending is None:
            return
        response = self._response
        if response is None:
            pending.fail(ConnectionClosed("the agent closed the connection"))
        else:
            # Without a length, the end of the connection is the end of the body (RFC 9112, 6.3).
            has_no_length = not {"content-length", "transfer-encoding"} & response.headers.keys()
            is_complete = has_no_length and is_closed_by_agent
            response.end(None if is_complete else ResponseTruncated("the response ended too early"))
        pending.end()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if not self._is_awaiting:
            self._is_broken = True
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        self._field_bytes += size
        if size > MAX_FIELD_BYTES or self._field_bytes > MAX_HEAD_BYTES:
            raise InvalidHttpResponse("a header of the response is too large")
        if self._response is None:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._is_broken or 100 <= status < 200:
            return  # an interim response: the final one follows
        self._field_bytes = 0
        self._keep_alive = self._parser.should_keep_alive()
        self._response = UpstreamResponse(self, status, self._headers)
        if self._pending is not None:
            self._pending.set_response(self._response)

    def on_body(self, body: bytes) -> None:
        if self._is_awaiting:
            self._pieces.append(body)  # one read of a stream can contain hundreds of pieces

    def on_message_complete(self) -> None:
        if self._response is not None:
            self._is_awaiting = False

    def _deliver_body(self, size: int) -> None:
        """Pass received body data to the response; raise if too many other bytes arrive without any."""
        pieces, self._pieces = self._pieces, []
        if pieces and self._response is not None:
            self._non_body_bytes = 0
            self._response.feed(pieces)
            return
        self._non_body_bytes += size
        if self._non_body_bytes > MAX_HEAD_BYTES:
            raise InvalidHttpResponse("the response has too many bytes outside its body")

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if self._response is not None:
            self._response.end()
        if pending is not None:
            pending.end()
        if self._is_broken or not self._keep_alive or self._is_sending():
            self.abort()
        else:
            self.resume()
            self._pool.release(self)
