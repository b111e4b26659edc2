"""The signer of a server. Its keys are in the store and are created on first start."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Self

from placet.errors import SettingsError
from placet.ports.key_store import KeyStore
from placet.ports.signer import Claim
from placet.signing.keys import KeyRing, SigningKey, build_key_set, dump_key, generate_key, load_key
from placet.signing.offloading_signer import OffloadingSigner

DEFAULT_ALGORITHM = "ES256"


class StoredSigner:
    """Signs with the current key of the store. `refresh` reads the keys again."""

    def __init__(self, store: KeyStore, ring: KeyRing) -> None:
        self._store = store
        self._ring = ring
        self._signer = OffloadingSigner(ring)

    @classmethod
    async def open(cls, store: KeyStore, *, algorithm: str, clock: Callable[[], datetime]) -> Self:
        """Return a signer with the store's keys. Creates a key if there is none with this algorithm."""
        keys = [load_key(text) for text in await store.list_signing_keys()]
        ring = KeyRing.of(keys) if keys else await add_key(store, algorithm, clock())
        if ring.current.algorithm != algorithm:
            ring = await rotate_keys(store, now=clock(), algorithm=algorithm)
        return cls(store, ring)

    @property
    def algorithm(self) -> str:
        """Return the JWS algorithm of the next signature."""
        return self._signer.algorithm

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """Return the detached JWS of each payload, in order."""
        return await self._signer.sign_all(claims)

    def jwks(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish."""
        return self._signer.jwks()

    async def refresh(self) -> None:
        """Read the keys again, in case another process rotated or revoked one."""
        ring = KeyRing.of([load_key(text) for text in await self._store.list_signing_keys()])
        if ring != self._ring:
            self._ring = ring
            earlier, self._signer = self._signer, OffloadingSigner(ring)
            await earlier.aclose()

    async def aclose(self) -> None:
        """Stop the worker process."""
        await self._signer.aclose()


async def read_published_keys(store: KeyStore) -> dict[str, Any]:
    """Return the JSON Web Key Set of the keys in the store, newest first, also if signing is off."""
    keys = [load_key(text) for text in await store.list_signing_keys()]
    return build_key_set(reversed(keys))


async def add_key(store: KeyStore, algorithm: str, now: datetime) -> KeyRing:
    """Create and store the first key."""
    return await _save(store, KeyRing.of([generate_key(algorithm, now=now)]), ())


async def rotate_keys(store: KeyStore, *, now: datetime, algorithm: str | None = None) -> KeyRing:
    """Replace the current key, or create the first. Earlier keys stay published, without private parts."""
    keys = [load_key(text) for text in await store.list_signing_keys()]
    if not keys:
        return await add_key(store, algorithm or DEFAULT_ALGORITHM, now)
    return await _save(store, KeyRing.of(keys).rotate(now=now, algorithm=algorithm), keys)


async def revoke_key(store: KeyStore, kid: str, *, now: datetime) -> KeyRing:
    """Publish this key no more, so that its signatures are refused. Replaces it if it is the current key.

    Raises SettingsError if there is no such key.
    """
    keys = [load_key(text) for text in await store.list_signing_keys()]
    if not keys:
        raise SettingsError("There are no signing keys yet.")
    return await _save(store, KeyRing.of(keys).revoke(kid, now=now), keys)


async def _save(store: KeyStore, ring: KeyRing, before: Sequence[SigningKey]) -> KeyRing:
    """Write what changed, so that nothing is undone that another process wrote to other keys."""
    changed = [key for key in ring.keys if key not in before]
    await store.save_signing_keys([(key.kid, dump_key(key)) for key in changed])
    return ring
