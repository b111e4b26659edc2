"""Storage for API keys, inbox sessions, signing keys and the server's secrets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key for the API; only its digest is stored. Keys with one name belong to one principal."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class StoredSession(Struct, frozen=True, kw_only=True):
    """A person's session at the inbox; only the digest of its token is stored."""

    digest: str
    key_digest: str
    """The digest of the API key that the person signed in with."""
    ends_at: datetime


class KeyStore(Protocol):
    """Stores API keys, inbox sessions, signing keys and the server's secrets."""

    async def get_api_key(self, digest: str) -> ApiKey | None:
        """Return the key with this digest, valid or not."""
        ...

    async def list_api_keys(self) -> Sequence[ApiKey]:
        """Return all keys, oldest first."""
        ...

    async def save_api_key(self, key: ApiKey) -> None:
        """Write a new or changed key. Raises CaseConflict if another key has its digest."""
        ...

    async def get_inbox_session(self, digest: str) -> StoredSession | None:
        """Return the session with this digest, ended by time or not; None once it was deleted."""
        ...

    async def add_inbox_session(self, session: StoredSession, *, now: datetime) -> None:
        """Write a new session, and delete those that have ended."""
        ...

    async def delete_inbox_session(self, digest: str) -> None:
        """Delete a session, if it exists."""
        ...

    async def list_signing_keys(self) -> Sequence[str]:
        """Return the serialised signing keys, oldest first."""
        ...

    async def save_signing_keys(self, keys: Sequence[tuple[str, str]]) -> None:
        """Write (key id, serialised key) pairs, new or changed, in one transaction."""
        ...

    async def get_or_create_secret(self, name: str, new_value: str) -> str:
        """Return the server's secret of this name; store `new_value` if there is none yet."""
        ...
