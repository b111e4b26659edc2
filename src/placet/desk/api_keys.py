"""Creation and revocation of API keys. Only their digests are stored."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from placet.cases.tokens import token_digest
from placet.desk import random_values
from placet.errors import ValidationFailed
from placet.ports.key_store import ApiKey, KeyStore

DEFAULT_SCOPES = ("cases:write", "cases:read")
LONGEST_NAME = 100
RESERVED = "relay:"
"""Prefix of the names under which the relay owns held messages."""


async def create_key(
    store: KeyStore,
    name: str,
    *,
    now: datetime,
    scopes: tuple[str, ...] = DEFAULT_SCOPES,
    expires_for: timedelta | None = None,
) -> str:
    """Create a key for the principal with this name and return it. It cannot be read again."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValidationFailed(f"A key's name is 1 to {LONGEST_NAME} printable characters.")
    if name.startswith(RESERVED):
        raise ValidationFailed(f"Names that begin with {RESERVED} are reserved for the relay.")
    secret = random_values.generate_api_key()
    await store.save_api_key(
        ApiKey(
            id=random_values.generate_short_id(),
            name=name,
            digest=token_digest(secret),
            scopes=scopes,
            created_at=now,
            expires_at=now + expires_for if expires_for else None,
        )
    )
    return secret


async def revoke_key(store: KeyStore, key_id: str, now: datetime) -> None:
    """Revoke a key. Revoking it again changes nothing."""
    found = next((key for key in await store.list_api_keys() if key.id == key_id), None)
    if found is None:
        raise ValidationFailed(f"There is no key {key_id[:50]!r}.")
    await store.save_api_key(replace(found, revoked_at=found.revoked_at or now))
