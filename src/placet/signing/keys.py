"""Signing keys: generation, serialisation, and the key ring of the current and all earlier keys."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import SettingsError
from placet.signing.algorithms import ALGORITHMS, Algorithm, SigningJwk, import_key

Moment = Annotated[datetime, Meta(tz=True)]


class SigningKey(Struct, frozen=True, kw_only=True):
    """A signing key. `jwk` is the private JWK as JSON while in use, and the public JWK once retired."""

    kid: str
    algorithm: str
    jwk: str
    created_at: Moment
    retired_at: Moment | None = None
    revoked_at: Moment | None = None

    def __repr__(self) -> str:
        # The private key stays out of logs and tracebacks.
        return f"SigningKey(kid={self.kid!r}, algorithm={self.algorithm!r}, retired_at={self.retired_at!r})"

    def read(self) -> SigningJwk:
        """Return the key. Raises SettingsError if the text does not match its key id or algorithm."""
        try:
            jwk = msgspec.json.decode(self.jwk, type=dict[str, str])
            key = import_key(_find_algorithm(self.algorithm), jwk, private="d" in jwk)
        except ValueError as error:
            raise SettingsError(f"Signing key {self.kid} cannot be read: {error}.") from None
        if key.thumbprint() != self.kid:
            raise SettingsError(f"Signing key {self.kid} does not match its kid.")
        return key

    def retire(self, *, now: datetime) -> Self:
        """Return this key as retired: without its private part, for verification only."""
        return replace(self, jwk=_read_text(self.read().as_dict(private=False)), retired_at=now)

    def revoke(self, *, now: datetime) -> Self:
        """Return this key as revoked: none of its signatures counts any more, whatever their date."""
        retired = self if self.retired_at is not None else self.retire(now=now)
        return retired if self.revoked_at is not None else replace(retired, revoked_at=now)

    def to_public_jwk(self) -> dict[str, Any]:
        """Return the public JWK for the key set, with the time after which it signs no more."""
        public = dict(self.read().as_dict(private=False))
        retired = {"retired_at": self.retired_at.isoformat()} if self.retired_at is not None else {}
        return {**public, "kid": self.kid, "alg": self.algorithm, "use": "sig", **retired}


class KeyRing(Struct, frozen=True, kw_only=True):
    """The key that signs, and all earlier keys. Those that are not revoked stay published."""

    current: SigningKey
    earlier: tuple[SigningKey, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[SigningKey]) -> Self:
        """Return the ring of these keys, in any order. The newest key that is not retired signs.

        Raises SettingsError if no key can sign or two share a name.
        """
        if len({key.kid for key in keys}) != len(keys):
            raise SettingsError("Two signing keys have the same kid.")
        # Two servers that start at once may each create a key: the order decides which one signs.
        newest_first = sorted(keys, key=lambda key: (key.created_at, key.kid), reverse=True)
        current = next((key for key in newest_first if key.retired_at is None), None)
        if current is None:
            raise SettingsError("There is no active signing key. Create one with `placet signing rotate`.")
        return cls(current=current, earlier=tuple(key for key in newest_first if key is not current))

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """Return all keys, the current one first."""
        return (self.current, *self.earlier)

    def rotate(self, *, now: datetime, algorithm: str | None = None) -> Self:
        """Return the ring with a new current key, by default of the same algorithm. Others are retired."""
        new = generate_key(algorithm or self.current.algorithm, now=now)
        retired = tuple(key if key.retired_at else key.retire(now=now) for key in self.keys)
        return replace(self, current=new, earlier=retired)

    def revoke(self, kid: str, *, now: datetime) -> Self:
        """Return the ring with this key revoked. If it is the current key, a new one is created.

        Raises SettingsError if there is no such key.
        """
        if kid not in {key.kid for key in self.keys}:
            raise SettingsError(f"There is no signing key {kid!r}. `placet signing list` shows the keys.")
        ring = self.rotate(now=now) if kid == self.current.kid else self
        revoked = tuple(key.revoke(now=now) if key.kid == kid else key for key in ring.earlier)
        return replace(ring, earlier=revoked)


def build_key_set(keys: Iterable[SigningKey]) -> dict[str, Any]:
    """Return the JSON Web Key Set to publish, without revoked keys, so that every verifier refuses these."""
    return {"keys": [key.to_public_jwk() for key in keys if key.revoked_at is None]}


def generate_key(algorithm: str = "ES256", *, now: datetime) -> SigningKey:
    """Return a new key, named by its RFC 7638 thumbprint. Raises SettingsError for an unknown algorithm."""
    key = _find_algorithm(algorithm).generate()
    return SigningKey(
        kid=key.thumbprint(), algorithm=algorithm, jwk=_read_text(key.as_dict(private=True)), created_at=now
    )


def dump_key(key: SigningKey) -> str:
    """Return the key as JSON for a store. It contains the private key."""
    return msgspec.json.encode(key).decode()


def load_key(text: str | bytes) -> SigningKey:
    """Return the key that `dump_key` wrote. Raises SettingsError if the text was damaged or altered."""
    try:
        key = msgspec.json.decode(text, type=SigningKey)
    except ValueError:
        raise SettingsError("A stored signing key is not readable.") from None
    if not key.read().is_private and key.retired_at is None:
        raise SettingsError(f"Signing key {key.kid} is in use but has no private half.")
    return key


def _find_algorithm(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise SettingsError(f"The signing algorithm must be one of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[name]


def _read_text(jwk: Any) -> str:
    return msgspec.json.encode(jwk).decode()
