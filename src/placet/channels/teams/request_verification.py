"""Verify that Microsoft sent a request: its token, checked against the keys that Microsoft publishes."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from placet.channels.platform_api import PlatformApi
from placet.channels.teams.interactions import TeamsActivity
from placet.errors import SignatureInvalid, Unreachable

ISSUER = "https://api.botframework.com"
ALGORITHMS = ("RS256",)
METADATA = "/v1/.well-known/openidconfiguration"
CACHE_KEYS_FOR = timedelta(hours=24)
MIN_REFRESH_INTERVAL = timedelta(minutes=5)
"""An unknown key id triggers a refresh of the keys, at most this often."""
MAX_TOKEN_LENGTH = 16_384
MAX_CLOCK_SKEW_S = 300
"""The allowed difference between Microsoft's clock and ours."""

Keys = Mapping[str, Mapping[str, Any]]


class MicrosoftKeys:
    """Microsoft's public keys by id, fetched on demand and cached for a day."""

    def __init__(self, api: PlatformApi, keys_url: str, *, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._base_url = keys_url.rstrip("/")
        self._now = clock
        self._keys: Keys = {}
        self._fetched_at: datetime | None = None

    async def find(self, kid: str) -> Mapping[str, Any]:
        """Return the key with this id; raise SignatureInvalid if Microsoft publishes none."""
        if self._is_older_than(CACHE_KEYS_FOR) or (
            kid not in self._keys and self._is_older_than(MIN_REFRESH_INTERVAL)
        ):
            self._keys = await self._fetch()
            self._fetched_at = self._now()
        if kid not in self._keys:
            raise SignatureInvalid("Microsoft publishes no key with this id.")
        return self._keys[kid]

    def _is_older_than(self, age: timedelta) -> bool:
        return self._fetched_at is None or self._now() - self._fetched_at >= age

    async def _fetch(self) -> Keys:
        metadata = await self._api.call("GET", METADATA)
        named = metadata.body.get("jwks_uri")
        if not metadata.is_ok or not isinstance(named, str) or not named.startswith(f"{self._base_url}/"):
            raise Unreachable("Microsoft's metadata does not name its keys.")
        reply = await self._api.call("GET", named.removeprefix(self._base_url))
        listed = reply.body.get("keys")
        if not reply.is_ok or not isinstance(listed, list):
            raise Unreachable("Microsoft's keys cannot be read.")
        keys = [key for key in listed if isinstance(key, dict) and isinstance(key.get("kid"), str)]
        return {key["kid"]: key for key in keys}


async def verify_request(
    authorization: str, activity: TeamsActivity, keys: MicrosoftKeys, *, app_id: str, now: datetime
) -> None:
    """Raise SignatureInvalid unless Microsoft signed this request for this bot and this service."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_LENGTH:
        raise SignatureInvalid("The request has no bearer token.")
    key = await keys.find(_find_key_id(token))
    claims = _verify_token(token, key)
    _check_claims(claims, app_id=app_id, now=now.timestamp())
    if not activity.service_url or claims.get("serviceurl") != activity.service_url:
        raise SignatureInvalid("The token is for another service.")
    endorsements = key.get("endorsements")
    if isinstance(endorsements, list) and activity.channel_id not in endorsements:
        raise SignatureInvalid("The key is not endorsed for this channel.")


def _find_key_id(token: str) -> str:
    try:
        kid = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError, TypeError, RecursionError):
        raise SignatureInvalid("The token cannot be parsed.") from None
    if not isinstance(kid, str):
        raise SignatureInvalid("The token does not name its key.")
    return kid


def _verify_token(token: str, key: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        known = jwk.RSAKey.import_key({name: key[name] for name in ("kty", "n", "e")})
        return jwt.decode(token, known, algorithms=list(ALGORITHMS)).claims
    except (JoseError, ValueError, KeyError, TypeError, RecursionError):
        raise SignatureInvalid("The token is not signed by Microsoft.") from None


def _check_claims(claims: Mapping[str, Any], *, app_id: str, now: float) -> None:
    if claims.get("iss") != ISSUER or claims.get("aud") != app_id:
        raise SignatureInvalid("The token has another issuer, or is for another bot.")
    begins, ends = _parse_timestamp(claims.get("nbf", 0)), _parse_timestamp(claims.get("exp"))
    if not begins - MAX_CLOCK_SKEW_S <= now <= ends + MAX_CLOCK_SKEW_S:
        raise SignatureInvalid("The token is expired or not valid yet.")


def _parse_timestamp(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SignatureInvalid("The token has no validity period.")
    return value
