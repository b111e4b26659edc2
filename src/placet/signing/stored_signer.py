"""The signer of a server: its keys live in the store, are made on first start and may be rotated."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Self

from placet.ports.key_store import KeyStore
from placet.ports.signer import Claim
from placet.signing.busy_signer import BusySigner
from placet.signing.keys import KeyRing, SigningKey, dump_key, generate_key, load_key

DEFAULT_ALGORITHM = "ES256"


class StoredSigner:
    """Signs with the current key of the store; `refresh` notices a rotation by another process."""

    def __init__(self, store: KeyStore, ring: KeyRing) -> None:
        self._store = store
        self._kids = _kids(ring)
        self._signer = BusySigner(ring)

    @classmethod
    async def open(cls, store: KeyStore, *, algorithm: str, clock: Callable[[], datetime]) -> Self:
        """The signer over the store's keys; makes a first one, or one of the algorithm now asked for."""
        keys = [load_key(text) for text in await store.list_signing_keys()]
        ring = KeyRing.of(keys) if keys else await add_key(store, algorithm, clock())
        if ring.current.algorithm != algorithm:
            ring = await rotate_keys(store, now=clock(), algorithm=algorithm)
        return cls(store, ring)

    @property
    def algorithm(self) -> str:
        """The JWS algorithm of the next signature."""
        return self._signer.algorithm

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """The detached JWS over each payload, in their order."""
        return await self._signer.sign_all(claims)

    def jwks(self) -> dict[str, Any]:
        """The published keys."""
        return self._signer.jwks()

    async def refresh(self) -> None:
        """Take up keys that were rotated elsewhere."""
        ring = KeyRing.of([load_key(text) for text in await self._store.list_signing_keys()])
        if _kids(ring) != self._kids:
            self._kids = _kids(ring)
            earlier, self._signer = self._signer, BusySigner(ring)
            await earlier.aclose()

    async def aclose(self) -> None:
        """Let go of what signs."""
        await self._signer.aclose()


async def read_published_keys(store: KeyStore) -> dict[str, Any]:
    """The JSON Web Key Set of all that ever signed here, newest first, whether or not anything signs now."""
    keys = [load_key(text) for text in await store.list_signing_keys()]
    return {"keys": [key.to_public_jwk() for key in reversed(keys)]}


async def add_key(store: KeyStore, algorithm: str, now: datetime) -> KeyRing:
    """Make and keep the first key."""
    return await _save(store, KeyRing.of([generate_key(algorithm, now=now)]))


async def rotate_keys(store: KeyStore, *, now: datetime, algorithm: str | None = None) -> KeyRing:
    """Replace the current key, or make the first; earlier ones stay published without their private half."""
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
