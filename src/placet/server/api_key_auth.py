"""Authenticate requests by API key: a Bearer key becomes a principal."""

from collections.abc import Callable
from datetime import datetime, timedelta

from placet.cases.tokens import digest_token
from placet.errors import InvalidToken, KeyEnded
from placet.http.asgi import Scope, read_bearer_token
from placet.ports.identity import Principal
from placet.ports.key_store import ApiKey, KeyStore

ANONYMOUS = Principal(name=None, scopes=frozenset())
CACHE_FOR = timedelta(seconds=2)  # how long a revoked key may still work
CACHE_SIZE = 10_000
REFUSED = "This API key is not known, has expired or was revoked."


class ApiKeyAuthenticator:
    """Authenticates requests by the keys in the store."""

    def __init__(self, *, store: KeyStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._now = clock
        self._known: dict[str, tuple[Principal, datetime, datetime]] = {}  # principal, from, until

    async def __call__(self, scope: Scope) -> Principal:
        """Return the principal, anonymous without a credential; raise InvalidToken for an unknown key."""
        token = read_bearer_token(scope)
        if token is None:
            return ANONYMOUS
        now = self._now()
        digest = digest_token(token)
        known = self._known.get(digest)
        if known is not None and known[1] <= now < known[2]:  # the clock may be set back
            return known[0]
        return self._remember(digest, await self._store.get_api_key(digest), now)

    def _remember(self, digest: str, key: ApiKey | None, now: datetime) -> Principal:
        self._known.pop(digest, None)
        principal = get_principal(key, now)
        until = now + CACHE_FOR
        if len(self._known) >= CACHE_SIZE:
            self._known.clear()
        ends_at = key.expires_at if key is not None else None
        self._known[digest] = (principal, now, min(until, ends_at or until))
        return principal


def get_principal(key: ApiKey | None, now: datetime) -> Principal:
    """Return the principal of a valid key; raise InvalidToken for any other."""
    if key is None:
        raise InvalidToken(REFUSED)
    if not key.is_valid(now):
        raise KeyEnded(REFUSED)
    return Principal(name=key.name, scopes=frozenset(key.scopes))
