"""HTTP/1.1 to agents: a request at a time over kept connections, and no more than that.

What aiohttp offers beside (cookies, redirects, proxies, decompression, hooks) would be off for agents, and
still costs as much as the rest of a relayed call. The parser is that of the server, llhttp, and whatever it
does not take ends the connection. Who asks bounds the time and the size of an answer.
"""

import asyncio
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import cast

import httptools
from aiohttp.abc import AbstractResolver
from yarl import URL

from assent.relay.agent_failures import BadHttp, BrokenOff, ConnectTimeout, HungUp

CONNECT_FOR_S = 5.0
KEEP_FOR_S = 15.0
"""A connection that nobody used for so long is closed: the agent may be about to do so."""
MOST_FIELD_BYTES = 8 * 1024
MOST_HEAD_BYTES = 64 * 1024
MOST_BUFFERED = 128 * 1024
"""With more than this unread, no more is taken from the agent."""

Origin = tuple[str, str, int]
_TARGET = re.compile(r"[!-~\x80-\xff]+")


class Response:
    """An answer: its head, and its body as it comes."""

    def __init__(self, connection: "_Connection", status: int, headers: Mapping[str, str]) -> None:
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
        if self._buffered > MOST_BUFFERED and not self._whole:
            self._connection.resume()
        self._buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Let go of it; a connection with an answer that nobody read to its end is of no more use."""
        if not self._whole:
            self._connection.abort()

    def feed(self, pieces: list[bytes]) -> None:
        """More of the body."""
        self._chunks += pieces
        self._buffered += sum(map(len, pieces))
        if self._buffered > MOST_BUFFERED:
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


class _Connection(asyncio.Protocol):
    """One connection, with one exchange at a time."""

    def __init__(self, client: "AgentHttp", origin: Origin) -> None:
        self.loop = asyncio.get_running_loop()
        self.origin = origin
        self.idle_since = 0.0
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Future[Response] | None = None
        self._response: Response | None = None
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._head_bytes = 0
        self._paused = False
        self._expected = False
        """Whether an answer is due, or under way."""
        self._keep_alive = False
        self._spoiled = False
        self._late: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._spoiled and not self._transport.is_closing()

    async def exchange(self, request: bytes, within: float | None) -> Response:
        """The head of the answer to a request; raises BadHttp, and OSError if the connection ends."""
        if self._transport is None or not self.usable:
            raise ConnectionResetError("the connection is closed")
        self._response, self._expected, self._head_bytes = None, True, 0
        answering: asyncio.Future[Response] = self.loop.create_future()
        self._answering = answering
        self._transport.write(request)
        if within is not None:
            self._late = self.loop.call_later(within, self._fail, TimeoutError("the answer took too long"))
        try:
            return await answering
        except asyncio.CancelledError:
            if answering.cancelled():
                self.abort()
            elif answering.exception() is None:
                answering.result().close()  # it has come all the same; the connection may be another's by now
            raise

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

    def data_received(self, data: bytes) -> None:
        if not self._expected:
            self.abort()  # nobody asked: whatever this is, it must not become the answer to the next request
            return
        try:
            try:
                self._parser.feed_data(data)
            finally:
                self._hand_on()
            if self._response is None:
                self._count(len(data))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, BadHttp) as error:
            failure = BadHttp("the agent does not speak HTTP")
            failure.__cause__ = error
            self._fail(failure)
            return
        if not self._expected:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self._spoiled = True
        self._in_time()
        self._client.lost(self)
        response = self._response
        if response is not None:
            unbounded = not {"content-length", "transfer-encoding"} & response.headers.keys()
            response.end(None if unbounded and error is None else BrokenOff("the answer broke off"))
        elif self._answering is not None and not self._answering.done():
            self._answering.set_exception(HungUp("the agent hung up"))

    # What the parser calls

    def on_message_begin(self) -> None:
        if not self._expected:
            self._spoiled = True
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        if size > MOST_FIELD_BYTES:
            raise BadHttp("a header of the answer is too large")
        self._count(size)
        if self._response is None:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._spoiled or 100 <= status < 200:
            return  # the answer itself comes after it
        self._head_bytes = 0
        self._keep_alive = self._parser.should_keep_alive()
        self._response = Response(self, status, self._headers)
        if self._answering is not None and not self._answering.done():
            self._answering.set_result(self._response)

    def on_body(self, body: bytes) -> None:
        if self._expected:
            self._pieces.append(body)  # a stream has hundreds in one read: they are handed on together

    def on_message_complete(self) -> None:
        if self._response is not None:
            self._expected = False

    def _hand_on(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and self._response is not None:
            self._response.feed(pieces)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            raise BadHttp("the head of the answer is too large")

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _finish(self) -> None:
        self._in_time()
        if self._response is not None:
            self._response.end()
        if self._spoiled or not self._keep_alive:
            self.abort()
        else:
            self.resume()
            self._client.give_back(self)

    def _fail(self, failure: Exception) -> None:
        if self._response is not None:
            self._response.end(failure)
        elif self._answering is not None and not self._answering.done():
            self._answering.set_exception(failure)
        self.abort()


class AgentHttp:
    """Sends requests; connections are kept for the next one to the same place."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver
        self._idle: dict[Origin, deque[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def request(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes, within: float | None = None
    ) -> Response:
        """The head of the answer. Who asks reads the answer to its end, or closes it.

        An answer that is not whole `within` so many seconds fails with TimeoutError, its head or its body.
        Raises ConnectTimeout, OSError, BadHttp, and whatever the resolver refuses an address with.
        """
        host, port = url.host, url.port
        if host is None or port is None:
            raise OSError("the address names no host")
        request = _request(method, url, headers, body)
        connection = self._kept((url.scheme, host, port)) or await self._connect((url.scheme, host, port))
        return await connection.exchange(request, within)

    def give_back(self, connection: _Connection) -> None:
        """Keep a connection for another request."""
        connection.idle_since = time.monotonic()
        self._idle.setdefault(connection.origin, deque()).append(connection)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(KEEP_FOR_S, self._close_idle)

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that has ended."""
        self._open.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None and connection in idle:
            idle.remove(connection)

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    def _kept(self, origin: Origin) -> _Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.usable and time.monotonic() - connection.idle_since < KEEP_FOR_S:
                return connection
            connection.abort()
        return None

    def _close_idle(self) -> None:
        """Close what nobody used for a while; look again as long as anything is kept."""
        self._sweep = None
        oldest = time.monotonic() - KEEP_FOR_S
        for origin, idle in list(self._idle.items()):
            while idle and idle[0].idle_since <= oldest:
                idle.popleft().abort()
            if not idle:
                del self._idle[origin]
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_FOR_S / 3, self._close_idle)

    async def _connect(self, origin: Origin) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_FOR_S):
                addresses = await self._addresses(origin)
                return await self._connect_to_any(origin, addresses)
        except TimeoutError as late:
            raise ConnectTimeout("no connection in time") from late

    async def _addresses(self, origin: Origin) -> Sequence[str]:
        """Each new connection asks the resolver, whose answer is used once; an address is one already."""
        _, host, port = origin
        try:
            return [str(ip_address(host))]
        except ValueError:
            return [found["host"] for found in await self._resolver.resolve(host, port)]

    async def _connect_to_any(self, origin: Origin, addresses: Sequence[str]) -> _Connection:
        """One after the other: a silent address must not use up the time of the others."""
        scheme, host, port = origin
        failure: OSError = OSError("the name has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_FOR_S / len(addresses)):
                    _, connection = await asyncio.get_running_loop().create_connection(
                        lambda: _Connection(self, origin),
                        address,
                        port,
                        ssl=self._tls_context() if scheme == "https" else None,
                        server_hostname=host if scheme == "https" else None,
                    )
            except OSError as error:
                failure = error
            else:
                self._open.add(connection)
                return connection
        raise failure

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _request(method: str, url: URL, headers: Mapping[str, str], body: bytes) -> bytes:
    target = url.raw_path_qs
    if not _TARGET.fullmatch(target):
        raise OSError("the address is no address")
    lines = [f"{method} {target} HTTP/1.1\r\nhost: {url.host_port_subcomponent}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines):
        raise OSError("a header holds a line end")
    return head.encode("latin-1") + b"\r\n\r\n" + body
