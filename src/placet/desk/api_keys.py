"""Creation and revocation of API keys. Only their digests are stored."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from placet.cases.tokens import digest_token
from placet.desk import random_values
from placet.errors import ValidationFailed
from placet.ports.key_store import ApiKey, KeyStore
from placet.text.characters import contains_hidden
from placet.text.lookalikes import fold_name, look_alike

DEFAULT_SCOPES = ("cases:write", "cases:read")
MAX_NAME_LENGTH = 100
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
    """Create a key for the principal with this name and return it. It cannot be read again.

    Raises ValidationFailed for a name that people could take for that of another principal.
    """
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable() or contains_hidden(name):
        raise ValidationFailed(f"A key's name is 1 to {MAX_NAME_LENGTH} printable characters.")
    if name != name.strip():
        raise ValidationFailed("A key's name does not begin or end with a space.")
    if fold_name(name).startswith(RESERVED):
        raise ValidationFailed(f"Names that begin with {RESERVED} are reserved for the relay.")
    names = {key.name for key in await store.list_api_keys()}
    similar = next((one for one in sorted(names) if look_alike(one, name)), None)
    if name not in names and similar is not None:
        raise ValidationFailed(
            f"{name!a} looks like {similar!a}, the name of another principal. Use that name for another key"
            " of this principal, or choose a name that people can tell from it."
        )
    secret = random_values.generate_api_key()
    await store.save_api_key(
        ApiKey(
            id=random_values.generate_short_id(),
            name=name,
            digest=digest_token(secret),
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
