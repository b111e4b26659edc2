"""Requests that an agent signs with a key of its own (RFC 9421): which keys, and what a signature covers."""

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey
from msgspec import Struct

from placet.errors import ValidationFailed

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
COVERED = ("@method", "@target-uri")
"""The components that every signature has to cover. The target is the URL in the 202, with any query."""
MAX_AGE_S = 300
"""How old a signature may be, and how far ahead its clock."""
MAX_MEMBER_LENGTH = 100


class KeyType(Struct, frozen=True, kw_only=True):
    """A type of key, and the signature algorithm that it is used with."""

    algorithm: str
    key_class: type[ECKey] | type[OKPKey]
    fixed: dict[str, str]
    members: tuple[str, ...]


KEY_TYPES = (
    KeyType(algorithm="ed25519", key_class=OKPKey, fixed={"kty": "OKP", "crv": "Ed25519"}, members=("x",)),
    KeyType(
        algorithm="ecdsa-p256-sha256",
        key_class=ECKey,
        fixed={"kty": "EC", "crv": "P-256"},
        members=("x", "y"),
    ),
)


def normalize_public_key(jwk: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a JSON Web Key that are needed to verify; raises ValidationFailed.

    A private key is refused: it should not have left the agent.
    """
    if "d" in jwk:
        raise ValidationFailed("public_key: this is a private key. Send its public half, without d.")
    kind = find_key_type(jwk)
    found = dict(kind.fixed)
    for name in kind.members:
        text = jwk.get(name)
        if not isinstance(text, str) or len(text) > MAX_MEMBER_LENGTH:
            raise ValidationFailed(f"public_key: {' and '.join(kind.members)} must be base64url text.")
        found[name] = text
    load_public_key(found)
    return found


def find_key_type(jwk: Mapping[str, Any]) -> KeyType:
    """Return the type of a JSON Web Key; raises ValidationFailed for others than Ed25519 and P-256."""
    for kind in KEY_TYPES:
        if all(jwk.get(name) == value for name, value in kind.fixed.items()):
            return kind
    raise ValidationFailed("public_key: send a JSON Web Key for Ed25519 or P-256.")


def load_public_key(jwk: Mapping[str, Any]) -> PublicKey:
    """Return the key of a normalised JSON Web Key; raises ValidationFailed."""
    try:
        key: Any = find_key_type(jwk).key_class.import_key(dict(jwk))
        return key.public_key  # type: ignore[no-any-return]
    except (JoseError, ValueError, TypeError) as error:
        raise ValidationFailed("public_key: this is not a point of its curve.") from error
