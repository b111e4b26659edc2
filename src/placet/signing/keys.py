"""Signing keys: making one, keeping it as text, and the ring of the current key and all that came before."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import SettingsError
from placet.signing.algorithms import ALGORITHMS, Algorithm, Key, import_key

Moment = Annotated[datetime, Meta(tz=True)]


class SigningKey(Struct, frozen=True, kw_only=True):
    """One key: `jwk` is its private JWK as JSON text while in use, the public one alone once retired."""

    kid: str
    algorithm: str
    jwk: str
    created_at: Moment
    retired_at: Moment | None = None

    def __repr__(self) -> str:
        # The private key stays out of logs and tracebacks.
        return f"SigningKey(kid={self.kid!r}, algorithm={self.algorithm!r}, retired_at={self.retired_at!r})"

    def read(self) -> Key:
        """The key itself; raises SettingsError if the text is not the key that its name and algorithm say."""
        try:
            jwk = msgspec.json.decode(self.jwk, type=dict[str, str])
            key = import_key(_algorithm(self.algorithm), jwk, private="d" in jwk)
        except ValueError as error:
            raise SettingsError(f"Signing key {self.kid} cannot be read: {error}.") from None
        if key.thumbprint() != self.kid:
            raise SettingsError(f"Signing key {self.kid} is not the key its name says.")
        return key

    def retire(self, *, now: datetime) -> Self:
        """This key from `now` on: it verifies what it signed, and its private half is gone."""
        return replace(self, jwk=_text(self.read().as_dict(private=False)), retired_at=now)

    def to_public_jwk(self) -> dict[str, Any]:
        """The public JWK as it stands in the key set."""
        public = dict(self.read().as_dict(private=False))
        return {**public, "kid": self.kid, "alg": self.algorithm, "use": "sig"}


class KeyRing(Struct, frozen=True, kw_only=True):
    """The key that signs and every earlier one, which stay published so that old results keep verifying."""

    current: SigningKey
    earlier: tuple[SigningKey, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[SigningKey]) -> Self:
        """The ring of these keys, in any order: the newest that is not retired signs.

        Raises SettingsError if no key can sign or two share a name.
        """
        if len({key.kid for key in keys}) != len(keys):
            raise SettingsError("Two signing keys share one kid.")
        # Two servers that start at once may each make a key; all must agree on which one signs.
        newest_first = sorted(keys, key=lambda key: (key.created_at, key.kid), reverse=True)
        current = next((key for key in newest_first if key.retired_at is None), None)
        if current is None:
            raise SettingsError("There is no signing key in use; rotate to make one.")
        return cls(current=current, earlier=tuple(key for key in newest_first if key is not current))

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """All keys, the current one first."""
        return (self.current, *self.earlier)

    def rotate(self, *, now: datetime, algorithm: str | None = None) -> Self:
        """The ring with a new current key, of the same algorithm unless told; every other key is retired."""
        new = generate_key(algorithm or self.current.algorithm, now=now)
        retired = tuple(key if key.retired_at else key.retire(now=now) for key in self.keys)
        return replace(self, current=new, earlier=retired)


def generate_key(algorithm: str = "ES256", *, now: datetime) -> SigningKey:
    """A new key, named by its RFC 7638 thumbprint; raises SettingsError for an unknown algorithm."""
    key = _algorithm(algorithm).generate()
    return SigningKey(
        kid=key.thumbprint(), algorithm=algorithm, jwk=_text(key.as_dict(private=True)), created_at=now
    )


def dump_key(key: SigningKey) -> str:
    """The key as JSON text for a store; whoever reads it can sign."""
    return msgspec.json.encode(key).decode()


def load_key(text: str | bytes) -> SigningKey:
    """The key that `dump_key` wrote; raises SettingsError if the text was damaged or altered."""
    try:
        key = msgspec.json.decode(text, type=SigningKey)
    except ValueError:
        raise SettingsError("A stored signing key is not readable.") from None
    if not key.read().is_private and key.retired_at is None:
        raise SettingsError(f"Signing key {key.kid} is in use but has no private half.")
    return key


def _algorithm(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise SettingsError(f"The signing algorithm must be one of {', '.join(ALGORITHMS)}.")
    return ALGORITHMS[name]


def _text(jwk: Any) -> str:
    return msgspec.json.encode(jwk).decode()
