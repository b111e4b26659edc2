"""Calls to a platform's HTTP API: bounded, patient with its rate limits, and silent about what is secret.

Some platforms put secrets into addresses, and HTTP clients write addresses into logs and errors. Here the
client sees a path without the secret; the real one is put in on the last step of the way.
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
LARGEST = 1024 * 1024
MOST_PATIENT_S = 30.0
TRIES = 3
LONGEST_BREAK_S = 60.0
_ADDRESS = re.compile(r"\S*://\S*")
_SECRET_PATH = "placet.secret_path"  # noqa: S105 - the name of an extension


class Reply(Struct, frozen=True, kw_only=True):
    """What a platform answered; a body that is not a JSON object is empty."""

    status: int
    body: dict[str, Any]
    retry_after_s: float | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the platform did what it was asked."""
        return 200 <= self.status < 300


class PlatformApi:
    """One platform's HTTP API. Raises Unreachable where no proper answer comes."""

    def __init__(
        self,
        platform: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
        sleep: Sleep = asyncio.sleep,
        is_busy: Callable[[Reply], bool] = lambda reply: reply.status == 429,
        break_s: float | None = None,
    ) -> None:
        """`break_s` is for platforms that ask for time without saying how much; it grows from try to try."""
        if not is_secure_or_loopback(base_url):
            raise SettingsError(f"The address of {platform}'s API must be an https:// one.")
        self.platform = platform
        self._base_url = base_url.rstrip("/")
        self._sleep = sleep
        self._is_busy = is_busy
        self._break_s = break_s
        self._http = httpx.AsyncClient(
            headers={"User-Agent": "placet", **(headers or {})},
            auth=auth,
            timeout=TIMEOUT_S,
            follow_redirects=False,
            transport=_SecretPaths(base_url),
        )

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        secret_path: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = MOST_PATIENT_S,
    ) -> Reply:
        """One call; a platform that asks to slow down gets its time, as far as patience goes.

        `path` is what logs may show of `secret_path`, if there is one.
        """
        reply = await self._once(method, path, body, secret_path, timeout_s)
        for turn in range(TRIES - 1):
            wait_s = self._wait_s(reply, turn)
            if not self._is_busy(reply) or wait_s is None or wait_s > patience_s:
                break
            patience_s -= wait_s
            await self._sleep(wait_s)
            reply = await self._once(method, path, body, secret_path, timeout_s)
        if self._is_busy(reply):
            raise Unreachable(f"{self.platform} takes no more messages for now.")
        if reply.status >= 500:
            raise Unreachable(f"{self.platform} has a problem of its own (HTTP {reply.status}).")
        return reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _wait_s(self, reply: Reply, turn: int) -> float | None:
        if reply.retry_after_s is not None or self._break_s is None:
            return reply.retry_after_s
        return self._break_s * 4.0**turn

    async def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        secret_path: str | None,
        timeout_s: float,
    ) -> Reply:
        try:
            async with self._http.stream(
                method,
                self._base_url + path,
                content=msgspec.json.encode(body) if body is not None else None,
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=httpx.Timeout(TIMEOUT_S, read=timeout_s),
                extensions={_SECRET_PATH: secret_path} if secret_path is not None else None,
            ) as response:
                return _reply(response, await _bounded(response))
        except httpx.HTTPError as error:
            # Without its cause: the text of an HTTP error may name an address.
            raise Unreachable(f"{self.platform} cannot be reached ({type(error).__name__}).") from None


def break_after(failures: int) -> float:
    """Seconds until whoever listens tries again: longer each time, and after days as after minutes."""
    return min(LONGEST_BREAK_S, 2.0 ** min(failures - 1, 10))


def told_by(platform: str, text: object) -> str:
    """What a platform said about a failure, for people and logs: one line, without any address in it."""
    said = text if isinstance(text, str) else ""
    return (
        f"{platform} says: {truncate(to_single_line(_ADDRESS.sub('…', said[:1000])), 200) or 'nothing more'}"
    )


async def _bounded(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LARGEST:
            raise httpx.RemoteProtocolError("the answer is too long")
    return body


def _reply(response: httpx.Response, raw: bytes) -> Reply:
    try:
        body = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        # A proxy's page instead of the platform's answer is a failure on the way, whatever its status.
        listed = isinstance(body, list) and response.is_success
        return Reply(status=response.status_code if listed else 502, body={})
    return Reply(status=response.status_code, body=body, retry_after_s=_retry_after_s(response, body))


def _retry_after_s(response: httpx.Response, body: Mapping[str, Any]) -> float | None:
    parameters = body.get("parameters")
    named = [
        body.get("retry_after"),
        parameters.get("retry_after") if isinstance(parameters, dict) else None,
        response.headers.get("retry-after"),
    ]
    for value in named:
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


@cache
def _tls() -> ssl.SSLContext:
    """One for all channels: it takes long to make."""
    return httpx.create_ssl_context()


class _SecretPaths(httpx.AsyncBaseTransport):
    """Puts the secret path in where nothing is logged any more; goes through the machine's proxy if any."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        bypassed = host in LOOPBACK_HOSTS or proxy_bypass(host)
        proxy = None if bypassed else getproxies().get(parts.scheme)
        self._inner = httpx.AsyncHTTPTransport(verify=_tls(), proxy=proxy)
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
