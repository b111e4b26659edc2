"""Authenticate the bot to Microsoft: an OAuth token, cached until shortly before it expires."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import msgspec

from placet.channels.platform_api import quote_platform
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.protocol.addresses import is_secure_or_loopback

SCOPE = "https://api.botframework.com/.default"
RENEW_BEFORE_EXPIRY = timedelta(minutes=5)
MAX_LIFETIME_S = 86_400


class TeamsBotAuth(httpx.Auth):
    """Adds the token to every call; requests a new one, once, if it is refused."""

    def __init__(
        self, *, login_url: str, tenant_id: str, app_id: str, secret: str, clock: Callable[[], datetime]
    ) -> None:
        if not is_secure_or_loopback(login_url):
            raise SettingsError("The login URL of Microsoft must start with https://.")
        self._url = f"{login_url.rstrip('/')}/{tenant_id}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": app_id,
            "client_secret": secret,
            "scope": SCOPE,
        }
        self._now = clock
        self._token = ""
        self._renew_at: datetime | None = None

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Request a token before the call if needed, and again if the call answers 401."""
        if self._renew_at is None or self._renew_at <= self._now():
            await self._store_token((yield self._build_token_request(request)))
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == 401:
            await self._store_token((yield self._build_token_request(request)))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _build_token_request(self, request: httpx.Request) -> httpx.Request:
        limits = {name: value for name, value in request.extensions.items() if name == "timeout"}
        return httpx.Request("POST", self._url, data=self._form, extensions=limits)

    async def _store_token(self, response: httpx.Response) -> None:
        await response.aread()
        body = _decode_object(response)
        token, lives_s = body.get("access_token"), body.get("expires_in")
        if response.status_code in (400, 401, 403):
            reason = quote_platform("Microsoft", body.get("error"))
            raise ChannelRefused(f"Microsoft does not accept the bot's id or secret. {reason}")
        if not response.is_success or not isinstance(token, str) or not isinstance(lives_s, int):
            raise Unreachable(f"Microsoft's login returned no token (HTTP {response.status_code}).")
        self._token = token
        self._renew_at = self._now() + timedelta(seconds=min(lives_s, MAX_LIFETIME_S)) - RENEW_BEFORE_EXPIRY


def _decode_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
