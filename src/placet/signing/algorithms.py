"""The three algorithms of signed results, and how their keys are generated, read and used."""

import hashlib
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import Struct

SigningJwk = ECKey | RSAKey | OKPKey

_SHA256 = hashes.SHA256()
_ECDSA = ec.ECDSA(Prehashed(_SHA256))
_PKCS1 = padding.PKCS1v15()
_COORDINATE_BYTES = 32
_RSA_BITS = 2048
_MEMBER = re.compile(r"[A-Za-z0-9_-]{1,1024}")


class Algorithm(Struct, frozen=True, kw_only=True):
    """A JWS algorithm and the type of key that it uses."""

    name: str
    key_class: type[ECKey] | type[RSAKey] | type[OKPKey]
    fixed: dict[str, str]
    members: tuple[str, ...]
    generate: Callable[[], SigningJwk]
    sign: Callable[[Any, bytes], bytes]


def _sign_es256(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    digest = hashlib.sha256(message).digest()  # faster than letting the library set up a hashing context
    r, s = decode_dss_signature(key.sign(digest, _ECDSA))
    return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


ALGORITHMS: Mapping[str, Algorithm] = {
    "ES256": Algorithm(
        name="ES256",
        key_class=ECKey,
        fixed={"kty": "EC", "crv": "P-256"},
        members=("x", "y"),
        generate=lambda: ECKey.generate_key("P-256"),
        sign=_sign_es256,
    ),
    "RS256": Algorithm(
        name="RS256",
        key_class=RSAKey,
        fixed={"kty": "RSA"},
        members=("n", "e"),
        generate=lambda: RSAKey.generate_key(_RSA_BITS),
        sign=lambda key, message: key.sign(message, _PKCS1, _SHA256),
    ),
    "EdDSA": Algorithm(
        name="EdDSA",
        key_class=OKPKey,
        fixed={"kty": "OKP", "crv": "Ed25519"},
        members=("x",),
        generate=lambda: OKPKey.generate_key("Ed25519"),
        sign=lambda key, message: key.sign(message),
    ),
}


def import_key(algorithm: Algorithm, jwk: Mapping[str, Any], *, private: bool = False) -> SigningJwk:
    """Return the key in `jwk`, with its private part if `private`. Raises ValueError if it is unusable."""
    if any(jwk.get(name) != value for name, value in algorithm.fixed.items()):
        raise ValueError(f"{algorithm.name} takes another type of key")
    names = (*algorithm.members, *(_list_private_members(algorithm) if private else ()))
    members = {name: jwk[name] for name in names if name in jwk}
    _check_members(algorithm, members)
    try:
        key = algorithm.key_class.import_key({**algorithm.fixed, **members})
    except (JoseError, TypeError, KeyError) as error:
        raise ValueError("the key is malformed") from error
    # Importing the raw private key again recomputes the public part, which the JWK could have altered.
    return algorithm.key_class.import_key(key.raw_value) if private else key  # type: ignore[arg-type]


def _list_private_members(algorithm: Algorithm) -> list[str]:
    return [name for name, member in algorithm.key_class.value_registry.items() if member.private]


def _check_members(algorithm: Algorithm, members: Mapping[str, Any]) -> None:
    if not members.keys() >= set(algorithm.members):
        raise ValueError(f"the key needs {' and '.join(algorithm.members)}")
    if not all(isinstance(value, str) and _MEMBER.fullmatch(value) for value in members.values()):
        raise ValueError("the key's members must be base64url text")
    if "n" in members and _count_bits(members["n"]) < _RSA_BITS:
        raise ValueError(f"an RSA key needs at least {_RSA_BITS} bits")


def _count_bits(number: str) -> int:
    return int.from_bytes(urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()
