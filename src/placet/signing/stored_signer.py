"""The signer of a server. Its keys are in the store, are created on first start and can be rotated."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Self

from placet.ports.key_store import KeyStore
from placet.ports.signer import Claim
from placet.signing.busy_signer import BusySigner
from placet.signing.keys import KeyRing, SigningKey, dump_key, generate_key, load_key

DEFAULT_ALGORITHM = "ES256"


class StoredSigner:
    """Signs with the current key of the store. `refresh` reads the keys again after a rotation."""

    def __init__(self, store: KeyStore, ring: KeyRing) -> None:
        self._store = store
        self._kids = _kids(ring)
        self._signer = BusySigner(ring)

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
        """Read the keys again, in case another process rotated them."""
        ring = KeyRing.of([load_key(text) for text in await self._store.list_signing_keys()])
        if _kids(ring) != self._kids:
            self._kids = _kids(ring)
            earlier, self._signer = self._signer, BusySigner(ring)
            await earlier.aclose()

    async def aclose(self) -> None:
        """Stop the worker process."""
        await self._signer.aclose()


async def read_published_keys(store: KeyStore) -> dict[str, Any]:
    """Return the JSON Web Key Set of all keys in the store, newest first, also if signing is off."""
    keys = [load_key(text) for text in await store.list_signing_keys()]
    return {"keys": [key.to_public_jwk() for key in reversed(keys)]}


async def add_key(store: KeyStore, algorithm: str, now: datetime) -> KeyRing:
    """Create and store the first key."""
    return await _save(store, KeyRing.of([generate_key(algorithm, now=now)]))


async def rotate_keys(store: KeyStore, *, now: datetime, algorithm: str | None = None) -> KeyRing:
    """Replace the current key, or create the first. Earlier keys stay published, without private parts."""
    keys = [load_key(text) for text in await store.list_signing_keys()]
    if not keys:
        return await add_key(store, algorithm or DEFAULT_ALGORITHM, now)
    return await _save(store, KeyRing.of(keys).rotate(now=now, algorithm=algorithm))


async def _save(store: KeyStore, ring: KeyRing) -> KeyRing:
    await store.save_signing_keys([(key.kid, dump_key(key)) for key in ring.keys])
    return ring


def _kids(ring: KeyRing) -> tuple[str, ...]:
    keys: tuple[SigningKey, ...] = tuple(ring.keys)
    return (ring.current.kid, *sorted(key.kid for key in keys))
