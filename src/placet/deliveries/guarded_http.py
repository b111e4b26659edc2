"""HTTP requests to addresses from outside: checked, pinned, limited in size, without our credentials."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from ssl import SSLContext

import aiohttp
from aiohttp.http import HttpProcessingError
from msgspec import Struct
from yarl import URL

from placet import __version__
from placet.deliveries.guarded_resolver import GuardedResolver, Lookup, SystemLookup
from placet.errors import Unreachable
from placet.ports.fetcher import FetchedReply
from placet.protocol.addresses import check_url

USER_AGENT = f"placet/{__version__}"
CONNECT_TIMEOUT = timedelta(seconds=5)
LOOKUP_TIMEOUT = timedelta(seconds=2)

# The first match is the message. The exception's own text is not used: it may quote the response.
FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "no connection could be made in time"),
    (TimeoutError, "it did not answer in time"),
    (aiohttp.ClientConnectorCertificateError, "its certificate was not accepted"),
    (aiohttp.ClientSSLError, "the TLS handshake failed"),
    (aiohttp.ClientConnectorDNSError, "its name could not be resolved"),
    (aiohttp.ClientConnectorError, "no connection could be made"),
    (aiohttp.ClientConnectionError, "the connection was closed before the answer was complete"),
    (aiohttp.ClientPayloadError, "the connection was closed before the answer was complete"),
    (aiohttp.ClientResponseError, "its answer is not valid HTTP"),
    (HttpProcessingError, "its answer is not valid HTTP"),
    (aiohttp.ClientError, "the request could not be made"),
    (OSError, "the connection failed"),
)


class GuardedReply(Struct, frozen=True, kw_only=True):
    """A response, as far as it was read."""

    status: int
    headers: dict[str, str]
    """By lower-case name; the first value of a repeated header."""
    body: bytes
    truncated: bool


class GuardedHttp:
    """One session for all outgoing requests to addresses from outside. The caller limits their number.

    Every URL passes `check_url` and every address of its host `check_address`; connections go to those
    addresses and no others. Redirects are not followed, cookies not stored, proxies and credentials of the
    environment not used, compressed bodies not unpacked. Implements `Fetcher`.

    `lookup` resolves host names instead of the system; `tls` replaces the default certificate checks.
    """

    def __init__(
        self,
        *,
        allow_loopback: bool = False,
        lookup: Lookup | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self._allow_loopback = allow_loopback
        self._own_lookup = SystemLookup()
        self._resolver = GuardedResolver(lookup or self._own_lookup, allow_loopback=allow_loopback)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        timeout_for: timedelta,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> GuardedReply:
        """Send one request and read at most `max_bytes` of the response; with 0 the body is not read.

        Raises `AddressRefused` for an address that may not be called, and `Unreachable` when no answer came
        within `timeout_for` or the connection failed.
        """
        target = check_url(url, allow_loopback=self._allow_loopback)
        with _explain_failures():
            async with (
                asyncio.timeout(timeout_for.total_seconds()),
                self._open_session().request(
                    method,
                    URL(target.url, encoded=True),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                return await _read(response, max_bytes)

    async def fetch(
        self, url: str, *, timeout_for: timedelta, max_bytes: int, bearer: str | None = None
    ) -> FetchedReply:
        """Get a document; see `Fetcher`. Also raises `Unreachable` for a compressed response."""
        headers = {"Accept": "application/json"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        reply = await self.request("GET", url, timeout_for=timeout_for, max_bytes=max_bytes, headers=headers)
        if reply.headers.get("content-encoding", "identity").lower() != "identity":
            raise Unreachable("The request failed: the answer is compressed, which was not asked for.")
        return FetchedReply(
            status=reply.status,
            content_type=reply.headers.get("content-type"),
            body=reply.body,
            truncated=reply.truncated,
        )

    async def check_resolves(self, url: str) -> None:
        """Raise `AddressRefused` if `url` may not be called as its name resolves now.

        A name that does not resolve within LOOKUP_FOR passes: it may resolve later, and is
        checked again then.
        """
        target = check_url(url, allow_loopback=self._allow_loopback)
        if target.address is not None:
            return
        with suppress(OSError):
            async with asyncio.timeout(LOOKUP_TIMEOUT.total_seconds()):
                await self._resolver.addresses(target.host)

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._own_lookup.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    # Each new connection uses our resolver, whose result is not cached.
                    resolver=self._resolver,
                    use_dns_cache=False,
                    ssl=True if self._tls is None else self._tls,
                    limit=0,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT.total_seconds()),
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> GuardedReply:
    body = await _read_body(response.content, max_bytes + 1) if max_bytes else b""
    truncated = len(body) > max_bytes
    if truncated:
        response.close()
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        headers.setdefault(name.lower(), value)
    return GuardedReply(status=response.status, headers=headers, body=body[:max_bytes], truncated=truncated)


async def _read_body(content: aiohttp.StreamReader, size: int) -> bytes:
    body = bytearray()
    while len(body) < size and (chunk := await content.read(size - len(body))):
        body += chunk
    return bytes(body)


@contextmanager
def _explain_failures() -> Iterator[None]:
    try:
        yield
    except tuple(kind for kind, _ in FAILURES) as failure:
        raise Unreachable(f"The request failed: {_explain(failure)}.") from failure


def _explain(failure: Exception) -> str:
    return next(words for kind, words in FAILURES if isinstance(failure, kind))
