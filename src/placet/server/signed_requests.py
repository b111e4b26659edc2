"""Verifies the signature of a request against the public key of the case's reader (RFC 9421)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, InvalidSignature
from http_message_signatures.algorithms import ECDSA_P256_SHA256, ED25519
from http_message_signatures.exceptions import HTTPMessageSignaturesException

from placet.errors import ValidationFailed
from placet.http.asgi import Scope
from placet.http.signed_requests import COVERED, MAX_AGE_S, PublicKey, find_key_type, load_public_key

_ALGORITHMS = {each.algorithm_id: each for each in (ECDSA_P256_SHA256, ED25519)}
_SIGNATURE_HEADERS = frozenset({b"signature", b"signature-input"})


class SignedRequest(NamedTuple):
    """A request as the library reads it; the URL is the one that the agent was told."""

    method: str
    url: str
    headers: Mapping[str, str]


def read_signed_request(scope: Scope, url: str) -> SignedRequest | None:
    """Return the request if it is signed. Of its headers, only those of the signature are read."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name in _SIGNATURE_HEADERS:
            text = value.decode("latin-1")
            found[name.decode()] = f"{found[name.decode()]}, {text}" if name.decode() in found else text
    if not found:
        return None
    query = scope["query_string"].decode("latin-1")
    return SignedRequest(scope["method"], f"{url}?{query}" if query else url, found)


def is_signed_with(request: SignedRequest, jwk: Mapping[str, Any], *, now: datetime) -> bool:
    """Return whether the owner of this public key signed the request just now."""
    try:
        algorithm = _ALGORITHMS[find_key_type(jwk).algorithm]
        verifier = _Verifier(
            signature_algorithm=algorithm, key_resolver=_OneKey(load_public_key(jwk)), now=now
        )
        return bool(verifier.verify(request, max_age=None, require_components=COVERED))
    except (HTTPMessageSignaturesException, ValidationFailed):
        return False


class _OneKey(HTTPSignatureKeyResolver):
    """The key of the case's reader, whatever a signature calls it."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key

    def resolve_public_key(self, key_id: str) -> PublicKey:
        return self._key


class _Verifier(HTTPMessageVerifier):
    """Compares the time of a signature with the clock of the desk."""

    def __init__(self, *, now: datetime, **options: Any) -> None:
        super().__init__(**options)
        self._now = now.astimezone(UTC).timestamp()

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        created, expires = (sig_input.params.get(name) for name in ("created", "expires"))
        if type(created) is not int or abs(self._now - created) > MAX_AGE_S:
            raise InvalidSignature("created is missing or too far from the present")
        if expires is not None and (type(expires) is not int or expires < self._now):
            raise InvalidSignature("the signature has expired")
