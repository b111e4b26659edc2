"""HTTP/1.1 to agents: a request at a time over kept connections, and no more than that.

What aiohttp offers beside (cookies, redirects, proxies, decompression, hooks) would be off for agents, and
still costs as much as the rest of a relayed call.
"""

import asyncio
import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet.relay.upstream.connection import (
    MAX_BUFFERED,
    Connection,
    Origin,
    PendingRequest,
    UpstreamResponse,
)
from placet.relay.upstream.deadlines import Deadlines
from placet.relay.upstream.errors import ConnectTimeout

__all__ = ["MAX_BUFFERED", "AgentHttpClient", "PendingRequest", "UpstreamResponse"]

CONNECT_FOR_S = 5.0
KEEP_FOR_S = 4.0
"""A connection that nobody used for so long is closed: many agents do so after five seconds, and what is sent
at that moment is lost."""

_TARGET = re.compile(r"[!-~\x80-\xff]+")


class AgentHttpClient:
    """Sends requests over pooled connections."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver
        self._idle: dict[Origin, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._bounds: dict[float, Deadlines[PendingRequest]] = {}

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None = None,
        over: Callable[[], None] = lambda: None,
    ) -> UpstreamResponse:
        """The head of the answer. Who asks reads the answer to its end, or closes it.

        An answer that is not whole `within` so many seconds fails with TimeoutError, its head or its body.
        `over` is called once, when the exchange has ended in whatever way.
        Raises ConnectTimeout, OSError, BadHttp, and whatever the resolver refuses an address with.
        """
        try:
            origin, request = _parse_target(method, url)[0], _encode_request(method, url, headers, body)
            connection = self._take_idle(origin) or await self._connect(origin)
        except BaseException:
            over()
            raise
        return await connection.send(request, self._get_deadlines(within), over).head()

    def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None,
        over: Callable[[], None],
    ) -> PendingRequest | None:
        """Ask at once, over a connection that is kept; None, with nothing done, if there is none.

        As `request`; what it raises itself is OSError for what is no request.
        """
        request = _encode_request(method, url, headers, body)
        connection = self._take_idle(_parse_target(method, url)[0])
        return None if connection is None else connection.send(request, self._get_deadlines(within), over)

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        connection.idle_since = time.monotonic()
        self._idle.setdefault(connection.origin, deque()).append(connection)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(KEEP_FOR_S, self._close_idle)

    def forget_connection(self, connection: Connection) -> None:
        """Remove a closed connection from the pool."""
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

    def _get_deadlines(self, within: float | None) -> Deadlines[PendingRequest] | None:
        """What watches the time of an exchange; there are as many lengths of it as settings for them."""
        if within is None:
            return None
        bound = self._bounds.get(within)
        if bound is None:
            bound = self._bounds[within] = Deadlines(within, PendingRequest.time_out)
        return bound

    def _take_idle(self, origin: Origin) -> Connection | None:
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

    async def _connect(self, origin: Origin) -> Connection:
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

    async def _connect_to_any(self, origin: Origin, addresses: Sequence[str]) -> Connection:
        """One after the other: a silent address must not use up the time of the others."""
        scheme, host, port = origin
        failure: OSError = OSError("the name has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_FOR_S / len(addresses)):
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
    """Whom to connect to and how a request begins: agents have few addresses, which are called again."""
    host, port, target = url.host, url.port, url.raw_path_qs
    if host is None or port is None:
        raise OSError("the address names no host")
    if not _TARGET.fullmatch(target):
        raise OSError("the address is no address")
    return (url.scheme, host, port), f"{method} {target} HTTP/1.1\r\nhost: {url.host_port_subcomponent}"


def _encode_request(method: str, url: URL, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [_parse_target(method, url)[1]]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines):
        raise OSError("a header holds a line end")
    return head.encode("latin-1") + b"\r\n\r\n" + body
