"""The HTTP client for agents: guarded addresses, limited sizes, kept connections, and outages noticed."""

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet import __version__
from placet.errors import AddressRefused
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.exchange import Exchange
from placet.relay.settings import RelayLimits
from placet.relay.tenants import RegisteredAgent
from placet.relay.upstream.connection import (
    Connection,
    ConnectTimeout,
    Deadlines,
    InvalidHttpResponse,
    Origin,
    PendingRequest,
    ResponseTruncated,
    UpstreamResponse,
)

UNAVAILABLE_STATUSES = frozenset({429, 502, 503, 504})
"""The statuses of a gateway in front of an agent that is not available."""

EXTENSION_HEADERS = ("a2a-extensions", "x-a2a-extensions")
HEADER_PATTERNS = {
    "a2a-version": re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,2}){0,2}"),
    "retry-after": re.compile(
        r"[0-9]{1,6}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
    ),
}
RESPONSE_HEADERS = frozenset({*EXTENSION_HEADERS, *HEADER_PATTERNS})
T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 4.0
"""How long an idle connection is kept. Many agents close idle connections after five seconds, and a request
that is sent at that moment is lost."""
_TARGET = re.compile(r"[!-~\x80-\xff]+")
FIXED_HEADERS = {"user-agent": f"placet/{__version__}", "accept-encoding": "identity"}
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"
UNREACHABLE = "The agent could not be reached."
TRUNCATED = "The agent's response ended before it was complete."
TIMED_OUT = "The agent did not respond in time."
INVALID_HTTP = "The agent's response is not valid HTTP."
NETWORK_ERRORS = (TimeoutError, AddressRefused, InvalidHttpResponse, ResponseTruncated, OSError)
"""The exceptions of calls to an agent."""


class AgentAvailability:
    """Knows which agents have answered their last call.

    `on_recovery` is called when an agent answers whose last call failed, and when it first answers.
    """

    def __init__(self, on_recovery: Callable[[RegisteredAgent], None]) -> None:
        self._on_recovery = on_recovery
        self._answering: set[tuple[str, str]] = set()

    def note_answer(self, agent: RegisteredAgent, status: int) -> None:
        """Note that an agent, or a gateway in front of it, has answered with this HTTP status."""
        if status in UNAVAILABLE_STATUSES:
            self.note_failure(agent)
        elif agent.key not in self._answering:
            self._answering.add(agent.key)
            self._on_recovery(agent)

    def note_failure(self, agent: RegisteredAgent) -> None:
        """Note that an agent could not be reached."""
        self._answering.discard(agent.key)


def select_response_headers(
    response: UpstreamResponse, request_headers: Mapping[str, str]
) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of A2A and `retry-after`; of extensions, those that the request named."""
    headers = response.headers
    if RESPONSE_HEADERS.isdisjoint(headers):
        return ()
    found = [
        (name, _filter_value(name, headers.get(name, ""), request_headers))
        for name in sorted(RESPONSE_HEADERS)
    ]
    return tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in found if value)


def _filter_value(name: str, value: str, request_headers: Mapping[str, str]) -> str:
    pattern = HEADER_PATTERNS.get(name)
    if pattern is not None:
        return value if pattern.fullmatch(value) else ""
    requested = {one.strip() for key in EXTENSION_HEADERS for one in request_headers.get(key, "").split(",")}
    return ", ".join(one for one in map(str.strip, value.split(",")) if one in requested)


class IdleTimeout:
    """Limits each wait of one task.

    `asyncio.timeout` sets and cancels a timer for each wait. This class keeps one timer, which checks when it
    expires whether the current wait has taken too long.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._until: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_expired = False

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Await and return the result; raise TimeoutError if it takes too long."""
        task = self._task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        self._until = self._loop.time() + self._within_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._check_idle)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._is_expired and task is not None and task.uncancel() <= cancelling:
                raise TimeoutError from None
            raise
        finally:
            self._until = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_idle(self) -> None:
        self._timer = None
        if self._until is None:
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._check_idle)
        elif self._task is not None:
            self._is_expired = True
            self._task.cancel()


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


class UpstreamRequest(NamedTuple):
    """One request to an agent; `headers` include its credentials."""

    agent: RegisteredAgent
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes


def build_request(exchange: Exchange, call: A2ACall, url: URL) -> UpstreamRequest:
    """Return the request that sends a call of this exchange to the agent."""
    return UpstreamRequest(exchange.subscription.sink, call.method, url, exchange.headers, call.body())


class AgentClient:
    """Calls agents without following redirects, storing cookies or decompressing bodies."""

    def __init__(
        self, *, resolver: AbstractResolver, limits: RelayLimits, availability: AgentAvailability
    ) -> None:
        self.availability = availability
        self._http = AgentHttpClient(resolver)
        self._limits = limits
        self._in_progress: dict[tuple[str, str], int] = {}

    async def begin(self, request: UpstreamRequest, *, within: float | None = None) -> UpstreamResponse:
        """Send a request and return the head of the response. Without `within` there is no deadline.

        The caller must close the response. Raises A2AError if the head is not acceptable.
        """
        on_end = self._count_call(request.agent)
        headers = {**FIXED_HEADERS, **request.headers}
        try:
            response = await self._http.request(
                request.method, request.url, headers, request.body, within, on_end
            )
        except NETWORK_ERRORS:
            self.availability.note_failure(request.agent)
            raise
        self.availability.note_answer(request.agent, response.status)
        try:
            check_response_head(response)
        except A2AError:
            response.close()
            raise
        return response

    def send(self, request: UpstreamRequest, *, within: float) -> PendingRequest | None:
        """Send a request over an idle connection without waiting; return None if there is none.

        Raises A2AError and OSError like `begin`. Call `check_response_head` when the head arrives.
        """
        on_end = self._count_call(request.agent)
        headers, pending = {**FIXED_HEADERS, **request.headers}, None
        try:
            pending = self._http.send(request.method, request.url, headers, request.body, within, on_end)
        finally:
            if pending is None:
                on_end()
        return pending

    def read_now(self, response: UpstreamResponse) -> bytes | None:
        """Return the whole body if it has arrived, or None; raise A2AError if it is too large."""
        whole = response.read_now()
        if whole is not None:
            self._check_size(len(whole))
        return whole

    async def read_whole(self, response: UpstreamResponse) -> bytes:
        """Return the whole body; raise A2AError if it is too large."""
        self._check_size(response.content_length or 0)
        chunks, size = [], 0
        while chunk := await response.read_some():
            chunks.append(chunk)
            size += len(chunk)
            self._check_size(size)
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        limit = self._limits.max_message_bytes
        if size > limit:
            raise A2AError("agent_response", f"The agent's response is larger than {limit} bytes.")

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._http.aclose()

    def _count_call(self, agent: RegisteredAgent) -> Callable[[], None]:
        """Count a call and return the function that ends it; raise A2AError if the limit is reached."""
        key, in_progress = agent.key, self._in_progress
        count = in_progress.get(key, 0)
        if count >= self._limits.max_calls:
            raise A2AError("busy", "Too many calls to this agent are in progress. Try again later.")
        in_progress[key] = count + 1

        def end_call() -> None:
            left = in_progress[key] - 1
            if left:
                in_progress[key] = left
            else:
                del in_progress[key]

        return end_call


def check_response_head(response: UpstreamResponse) -> None:
    """Raise A2AError if the status or the headers show that this is not an A2A response."""
    if response.status in (401, 403):
        raise A2AError("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AError("agent_response", "The agent responded with a redirect. The relay does not follow it.")
    if response.status >= 600:
        raise A2AError("agent_response", INVALID_HTTP)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise A2AError("agent_response", "The agent's response is compressed. The relay does not support it.")


def get_media_type(response: UpstreamResponse) -> str:
    """Return the media type of a response, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def as_a2a_error(failure: Exception) -> A2AError:
    """Return the A2A error for a network exception, without its text, which may quote the agent."""
    if isinstance(failure, TimeoutError):
        return A2AError("timeout", TIMED_OUT)
    if isinstance(failure, AddressRefused):
        return A2AError("unreachable", "The relay may not call the agent's address.")
    if isinstance(failure, InvalidHttpResponse):
        return A2AError("agent_response", INVALID_HTTP)
    return A2AError("unreachable", TRUNCATED if isinstance(failure, ResponseTruncated) else UNREACHABLE)


async def read_chunk(response: UpstreamResponse, idle_timeout: IdleTimeout) -> bytes:
    """Return the next bytes of a stream; empty at its end. Raises A2AError if it is idle or ends early."""
    try:
        if response.ready:
            return await response.read_some()
        return await idle_timeout.wait(response.read_some())
    except NETWORK_ERRORS as failure:
        raise as_a2a_error(failure) from failure
