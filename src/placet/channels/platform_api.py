"""An HTTP client for a messenger's API: limits response sizes, waits on rate limits, and hides secrets.

Some platforms require secrets in URLs, and HTTP clients write URLs into logs and errors. Here the client is
given a path without the secret; the transport inserts the real path after everything that logs.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec
from msgspec import Struct

from placet.errors import SettingsError, Unreachable
from placet.protocol.addresses import LOOPBACK_HOSTS, is_secure_or_loopback
from placet.text.truncation import to_single_line, truncate

Sleep = Callable[[float], Awaitable[None]]

TIMEOUT_S = 15.0
MAX_BODY_BYTES = 1024 * 1024
MAX_WAIT_S = 30.0
MAX_ATTEMPTS = 3
MAX_BACKOFF_S = 60.0
_URL = re.compile(r"\S*://\S*")
_SECRET_PATH = "placet.secret_path"  # noqa: S105 - the name of an extension


class PlatformReply(Struct, frozen=True, kw_only=True):
    """A platform's response; a body that is not a JSON object is represented as empty."""

    status: int
    body: dict[str, Any]
    retry_after_s: float | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class PlatformApi:
    """One platform's HTTP API. Raises Unreachable on network errors, rate limits and server errors."""

    def __init__(
        self,
        platform: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
        sleep: Sleep = asyncio.sleep,
        is_busy: Callable[[PlatformReply], bool] = lambda reply: reply.status == 429,
        busy_delay_s: float | None = None,
    ) -> None:
        """Create a client.

        `busy_delay_s` is the first delay for platforms that report being busy without a Retry-After; it
        grows with every attempt.
        """
        if not is_secure_or_loopback(base_url):
            raise SettingsError(f"The URL of the {platform} API must start with https://.")
        self.platform = platform
        self._base_url = base_url.rstrip("/")
        self._sleep = sleep
        self._is_busy = is_busy
        self._busy_delay_s = busy_delay_s
        self._http = httpx.AsyncClient(
            headers={"User-Agent": "placet", **(headers or {})},
            auth=auth,
            timeout=TIMEOUT_S,
            follow_redirects=False,
            transport=_SecretPathTransport(base_url),
        )

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        secret_path: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_wait_s: float = MAX_WAIT_S,
    ) -> PlatformReply:
        """Make one call; retry while the platform is busy, for at most `max_wait_s` seconds of delays.

        `path` appears in logs; `secret_path`, if given, is what is requested instead.
        """
        reply = await self._call_once(method, path, body, secret_path, timeout_s)
        for attempt in range(MAX_ATTEMPTS - 1):
            delay_s = self._get_delay_s(reply, attempt)
            if not self._is_busy(reply) or delay_s is None or delay_s > max_wait_s:
                break
            max_wait_s -= delay_s
            await self._sleep(delay_s)
            reply = await self._call_once(method, path, body, secret_path, timeout_s)
        if self._is_busy(reply):
            raise Unreachable(f"{self.platform} is rate limiting. Try again later.")
        if reply.status >= 500:
            raise Unreachable(f"{self.platform} failed (HTTP {reply.status}). Try again later.")
        return reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _get_delay_s(self, reply: PlatformReply, attempt: int) -> float | None:
        if reply.retry_after_s is not None or self._busy_delay_s is None:
            return reply.retry_after_s
        return self._busy_delay_s * 4.0**attempt

    async def _call_once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        secret_path: str | None,
        timeout_s: float,
    ) -> PlatformReply:
        try:
            async with self._http.stream(
                method,
                self._base_url + path,
                content=msgspec.json.encode(body) if body is not None else None,
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=httpx.Timeout(TIMEOUT_S, read=timeout_s),
                extensions={_SECRET_PATH: secret_path} if secret_path is not None else None,
            ) as response:
                return _parse_reply(response, await _read_bounded(response))
        except httpx.HTTPError as error:
            # `from None`: the text of an HTTP error may contain the URL.
            raise Unreachable(f"{self.platform} cannot be reached ({type(error).__name__}).") from None


def calculate_backoff_s(failures: int) -> float:
    """Return the seconds to wait before the next attempt: doubles with every failure, up to a minute."""
    return min(MAX_BACKOFF_S, 2.0 ** min(failures - 1, 10))


def quote_platform(platform: str, text: object) -> str:
    """Return a platform's error message for people and logs: one short line without URLs."""
    message = text if isinstance(text, str) else ""
    line = truncate(to_single_line(_URL.sub("…", message[:1000])), 200)
    return f"{platform} says: {line or 'no reason given'}"


async def _read_bounded(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise httpx.RemoteProtocolError("the response body is too large")
    return body


def _parse_reply(response: httpx.Response, raw: bytes) -> PlatformReply:
    try:
        body = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        # An HTML page of a proxy counts as a failed call, with any status.
        is_list = isinstance(body, list) and response.is_success
        return PlatformReply(status=response.status_code if is_list else 502, body={})
    return PlatformReply(status=response.status_code, body=body, retry_after_s=_retry_after_s(response, body))


def _retry_after_s(response: httpx.Response, body: Mapping[str, Any]) -> float | None:
    parameters = body.get("parameters")
    candidates = [
        body.get("retry_after"),
        parameters.get("retry_after") if isinstance(parameters, dict) else None,
        response.headers.get("retry-after"),
    ]
    for value in candidates:
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


@cache
def _build_tls_context() -> ssl.SSLContext:
    """Return the TLS context that all channels share: creating one is slow."""
    return httpx.create_ssl_context()


class _SecretPathTransport(httpx.AsyncBaseTransport):
    """Replaces the path with the secret one after logging; uses the system's proxy settings."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        is_direct = host in LOOPBACK_HOSTS or proxy_bypass(host)
        proxy = None if is_direct else getproxies().get(parts.scheme)
        self._inner = httpx.AsyncHTTPTransport(verify=_build_tls_context(), proxy=proxy)
        self._prefix = parts.path.rstrip("/")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        secret_path = request.extensions.get(_SECRET_PATH)
        if secret_path is not None:
            request = httpx.Request(
                request.method,
                request.url.copy_with(path=self._prefix + secret_path),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
