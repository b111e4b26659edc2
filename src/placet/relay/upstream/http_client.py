"""A minimal HTTP/1.1 client for agents with a connection pool.

aiohttp's other features (cookies, redirects, proxies, decompression, hooks) would be off for agents. They
still cost as much as the rest of a relayed call.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet.relay.upstream.connection import (
    MAX_BUFFERED_BYTES,
    Connection,
    Origin,
    PendingRequest,
    UpstreamResponse,
)
from placet.relay.upstream.deadlines import Deadlines
from placet.relay.upstream.errors import ConnectTimeout

__all__ = ["MAX_BUFFERED_BYTES", "AgentHttpClient", "PendingRequest", "UpstreamResponse"]

CONNECT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 4.0
"""How long an idle connection is kept. Many agents close idle connections after five seconds, and a request
that is sent at that moment is lost."""

_TARGET = re.compile(r"[!-~\x80-\xff]+")


class AgentHttpClient:
    """Sends requests over pooled connections."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver
        self._idle: dict[Origin, dict[Connection, float]] = {}
        """The idle connections, each with the time since when; the longest idle one is first."""
        self._open: set[Connection] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._deadlines: dict[float, Deadlines[PendingRequest]] = {}

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> UpstreamResponse:
        """Send a request and return the head of its response. The caller reads it to the end or closes it.

        If the response is not complete `within` so many seconds, reading it raises TimeoutError. `on_end` is
        called once, when the request has ended or failed. Raises ConnectTimeout, OSError,
        InvalidHttpResponse, and AddressRefused from the resolver.
        """
        try:
            origin, request = _parse_target(method, url)[0], _encode_request(method, url, headers, body)
            connection = self._take_idle(origin) or await self._connect(origin)
        except BaseException:
            on_end()
            raise
        return await connection.send(request, self._get_deadlines(within), on_end).head()

    def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None,
        on_end: Callable[[], None],
    ) -> PendingRequest | None:
        """Send a request over an idle connection without waiting; return None if there is none.

        Raises OSError if the request cannot be encoded. See `request` for the rest.
        """
        request = _encode_request(method, url, headers, body)
        connection = self._take_idle(_parse_target(method, url)[0])
        return None if connection is None else connection.send(request, self._get_deadlines(within), on_end)

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        self._idle.setdefault(connection.origin, {})[connection] = time.monotonic()
        if self._sweep is None:
            self._sweep = connection.loop.call_later(IDLE_TIMEOUT_S, self._close_idle)

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection from the pool."""
        self._open.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None:
            idle.pop(connection, None)

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the event loop closes the transports in its next iteration

    def _get_deadlines(self, within: float | None) -> Deadlines[PendingRequest] | None:
        """Return the shared timer for this timeout. There are only as many timeouts as settings."""
        if within is None:
            return None
        deadlines = self._deadlines.get(within)
        if deadlines is None:
            deadlines = self._deadlines[within] = Deadlines(within, PendingRequest.time_out)
        return deadlines

    def _take_idle(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection, since = idle.popitem()
            if connection.usable and time.monotonic() - since < IDLE_TIMEOUT_S:
                return connection
            connection.abort()
        return None

    def _close_idle(self) -> None:
        """Close connections that were idle too long; run again while there are idle connections."""
        self._sweep = None
        oldest = time.monotonic() - IDLE_TIMEOUT_S
        for origin, idle in list(self._idle.items()):
            for connection in [one for one, since in idle.items() if since <= oldest]:
                del idle[connection]
                connection.abort()
            if not idle:
                del self._idle[origin]
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S / 3, self._close_idle)

    async def _connect(self, origin: Origin) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                addresses = await self._resolve(origin)
                return await self._connect_to_any(origin, addresses)
        except TimeoutError as error:
            raise ConnectTimeout(f"no connection within {CONNECT_TIMEOUT_S:g} seconds") from error

    async def _resolve(self, origin: Origin) -> Sequence[str]:
        """Return the addresses of the host. Each new connection resolves the name again."""
        _, host, port = origin
        try:
            return [str(ip_address(host))]
        except ValueError:
            return [found["host"] for found in await self._resolver.resolve(host, port)]

    async def _connect_to_any(self, origin: Origin, addresses: Sequence[str]) -> Connection:
        """Connect to the first address that responds. Each address gets an equal share of the timeout."""
        scheme, host, port = origin
        failure: OSError = OSError("the host name has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S / len(addresses)):
                    _, connection = await asyncio.get_running_loop().create_connection(
                        lambda: Connection(self, origin),
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


@lru_cache(maxsize=1024)
def _parse_target(method: str, url: URL) -> tuple[Origin, str]:
    """Return the origin and the first lines of a request. Cached, because agents have few URLs."""
    host, port, target = url.host, url.port, url.raw_path_qs
    if host is None or port is None:
        raise OSError("the URL has no host or no port")
    if not _TARGET.fullmatch(target):
        raise OSError("the URL's path has characters that are not allowed")
    return (url.scheme, host, port), f"{method} {target} HTTP/1.1\r\nhost: {url.host_port_subcomponent}"


def _encode_request(method: str, url: URL, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [_parse_target(method, url)[1]]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines):
        raise OSError("a header contains a line break")
    return head.encode("latin-1") + b"\r\n\r\n" + body
