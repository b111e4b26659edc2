"""Offline verification of a signed result, from a poll response and a key set."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.registry import HeaderParameter
from msgspec import Struct

from placet.errors import SignatureInvalid, ValidationFailed
from placet.protocol.signed_result import ResultSignature, build_signing_payload, parse_signature
from placet.signing.algorithms import ALGORITHMS, SigningJwk, import_key

NOTICED_WITHIN = timedelta(minutes=1)  # how long a running server may take to notice a rotation


class VerifiedResult(Struct, frozen=True, kw_only=True):
    """The content that a signature proves, and the key that made it."""

    case_id: str
    action: str
    kid: str
    algorithm: str
    shown: str
    signed_at: str


class _ResultRegistry(jws.JWSRegistry):
    """The library's registry, with our header and our three algorithms."""

    def get_alg(self, name: str) -> Any:
        # The lookup of the library warns at every use of EdDSA, which RFC 9864 renames.
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError(name)
        return self.algorithms[name]


_SHOWN = HeaderParameter("Digest of what was shown", "str", required=True)
_REGISTRY = _ResultRegistry(header_registry={"shown": _SHOWN})


def verify_result(
    poll: Mapping[str, Any], jwks: Mapping[str, Any], *, shown: str | None = None
) -> VerifiedResult:
    """Verify a completed poll response with the keys of `jwks`. Raises SignatureInvalid with the reason.

    Give `shown`, the digest of an offer, to prove that this is what the person saw. Only what is returned and
    the result's data are proved; `signer` is a hint, so decide for yourself whose keys you pass in.
    """
    result = _read_completed_result(poll)
    signature = parse_signature(result.get("signature"))
    if signature.signed_at != poll.get("completed_at"):
        raise SignatureInvalid("signed_at must be the moment of completed_at.")
    if shown is not None and shown != signature.header.shown:
        raise SignatureInvalid("This is not what the person was shown.")
    require_signed_by(signature, _read_payload(poll, result, signature), jwks)
    return VerifiedResult(
        case_id=poll["case_id"],
        action=result["action"],
        kid=signature.header.kid,
        algorithm=signature.header.alg,
        shown=signature.header.shown,
        signed_at=signature.signed_at,
    )


def require_signed_by(signature: ResultSignature, payload: bytes, jwks: Mapping[str, Any]) -> None:
    """Raise SignatureInvalid unless a key of `jwks` signed this payload."""
    _check(signature, payload, _find_published_key(jwks, signature))


def _read_completed_result(poll: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(poll, Mapping):
        raise SignatureInvalid("The poll response must be a JSON object.")
    if poll.get("status") != "completed":
        raise SignatureInvalid("Only a completed case has a result to verify.")
    result = poll.get("result")
    if not isinstance(result, Mapping):
        raise SignatureInvalid("This poll response has no result.")
    return result


def _read_payload(poll: Mapping[str, Any], result: Mapping[str, Any], signature: ResultSignature) -> bytes:
    try:
        return build_signing_payload(
            case_id=poll.get("case_id"),  # type: ignore[arg-type]
            shown=signature.header.shown,
            action=result.get("action"),  # type: ignore[arg-type]
            data=result.get("data"),
            completed_at=signature.signed_at,
            verification=_read_verification(poll),
        )
    except ValidationFailed as error:
        raise SignatureInvalid(f"This cannot be a signed result: {error.message}") from None


def _read_verification(poll: Mapping[str, Any]) -> Mapping[str, Any] | None:
    context = poll.get("submission_context")
    found = context.get("verification_result") if isinstance(context, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _find_published_key(jwks: Mapping[str, Any], signature: ResultSignature) -> SigningJwk:
    header = signature.header
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list):
        raise SignatureInvalid("The key set must be an object with a list of keys.")
    found = [key for key in keys if isinstance(key, Mapping) and key.get("kid") == header.kid]
    if len(found) != 1:
        raise SignatureInvalid("The key set must have exactly one key with this kid.")
    if found[0].get("alg", header.alg) != header.alg or not _is_for_verification(found[0]):
        raise SignatureInvalid("The published key is not meant for this algorithm.")
    _require_signed_before_retirement(found[0].get("retired_at"), signature.signed_at)
    try:
        return import_key(ALGORITHMS[header.alg], found[0])
    except ValueError as error:
        raise SignatureInvalid(f"The published key does not fit {header.alg}: {error}.") from None


def _is_for_verification(jwk: Mapping[str, Any]) -> bool:
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _require_signed_before_retirement(retired_at: Any, signed_at: str) -> None:
    if retired_at is None:
        return
    try:
        is_late = datetime.fromisoformat(signed_at) > datetime.fromisoformat(retired_at) + NOTICED_WITHIN
    except (ValueError, TypeError, OverflowError):
        raise SignatureInvalid("The key is retired, and its retired_at or signed_at is not a time.") from None
    if is_late:
        raise SignatureInvalid(f"The key was retired at {retired_at[:40]}, before this was signed.")


def _check(signature: ResultSignature, payload: bytes, key: SigningJwk) -> None:
    try:
        jws.deserialize_compact(signature.value, key, registry=_REGISTRY, payload=payload)
    except (JoseError, ValueError):
        raise SignatureInvalid(
            "The signature does not match: case, action, data, time or key is not the one that was signed."
        ) from None
