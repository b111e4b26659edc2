"""Check DPoP proofs (RFC 9449): the caller holds the key that its access token is bound to."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, import_key
from msgspec import Struct

from placet.errors import InvalidToken

ALGORITHMS = ("ES256", "EdDSA")
MAX_PROOF_LENGTH = 4_000
MAX_ID_LENGTH = 256
LIFETIME = timedelta(seconds=60)
MAX_SKEW = timedelta(seconds=30)
MAX_REMEMBERED = 100_000


class _Claims(Struct):
    jti: str
    htm: str
    htu: str
    iat: int
    ath: str


_claims_decoder = msgspec.json.Decoder(_Claims)


class DpopVerifier:
    """Verifies proofs, each once. This process remembers a proof for as long as it is acceptable."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._now = clock
        self._used: dict[tuple[str, str], datetime] = {}

    def verify(self, proof: str, *, method: str, url: str, access_token: str, thumbprint: str) -> None:
        """Raise InvalidToken unless the proof was made with the bound key, for this request and this token.

        `thumbprint` is the RFC 7638 thumbprint that the access token is bound to (`cnf.jkt`). `url` is the
        public address of the request, from your settings and not from its headers.
        """
        key, claims = _read_proof(proof)
        if not hmac.compare_digest(key.thumbprint().encode(), thumbprint.encode()):
            raise InvalidToken("The proof was made with another key than the token is bound to.")
        if claims.htm != method.upper() or _strip_url(claims.htu) != _strip_url(url):
            raise InvalidToken("The proof was made for another request.")
        if not hmac.compare_digest(claims.ath.encode(), hash_token(access_token).encode()):
            raise InvalidToken("The proof was made for another token.")
        self._use_once(claims, thumbprint)

    def _use_once(self, claims: _Claims, thumbprint: str) -> None:
        now = self._now()
        age = timedelta(seconds=now.timestamp() - claims.iat)
        if not -MAX_SKEW <= age < LIFETIME or not 1 <= len(claims.jti) <= MAX_ID_LENGTH:
            raise InvalidToken("The proof has expired. Make one for each request.")
        if len(self._used) >= MAX_REMEMBERED:
            self._used = {used: until for used, until in self._used.items() if until > now}
            if len(self._used) >= MAX_REMEMBERED:
                raise InvalidToken("Too many requests. Try again in a minute.")
        used = (thumbprint, claims.jti)
        if self._used.get(used, now) > now:
            raise InvalidToken("The proof was used before. Make one for each request.")
        self._used[used] = now + LIFETIME + MAX_SKEW


def hash_token(access_token: str) -> str:
    """Return the `ath` of an access token."""
    digest = hashlib.sha256(access_token.encode("ascii", "replace")).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _read_proof(proof: str) -> tuple[ECKey | OKPKey, _Claims]:
    """Return the key in the proof's header and its claims, once its signature is verified."""
    if len(proof) > MAX_PROOF_LENGTH:
        raise InvalidToken("The DPoP proof is not valid.")
    try:
        header = _read_header(proof)
        key = import_key(header["jwk"])
        if not isinstance(key, ECKey | OKPKey) or key.is_private:
            raise InvalidToken("The DPoP proof must carry a public key.")
        registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        verified = jws.deserialize_compact(proof, key, registry=registry)
        return key, _claims_decoder.decode(verified.payload)
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise InvalidToken("The DPoP proof is not valid.") from error


def _read_header(proof: str) -> dict[str, Any]:
    header = jws.extract_compact(proof.encode("ascii")).headers()
    jwk = header.get("jwk")
    if header.get("typ") != "dpop+jwt" or header.get("alg") not in ALGORITHMS or not isinstance(jwk, dict):
        raise ValueError(json.dumps(sorted(header)))
    return header


def _strip_url(url: str) -> tuple[str, str, str]:
    """Return the URL without query and fragment, as RFC 9449 compares it."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower(), parts.path or "/"
