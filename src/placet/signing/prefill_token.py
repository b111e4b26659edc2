"""Short-lived tokens with which the server fetches `default_ref`, so that others are refused.

A token is a compact JWS made with the keys that sign results. Its payload begins with `aud`, that of a result
with `action` and that of a checkpoint with `audit`: none can be taken for another. The token goes to the
address only. The agent, who knows the address and the review link, cannot make one.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from placet.errors import SignatureInvalid
from placet.ports.signer import Claim, Signer
from placet.protocol.signed_result import format_wire_time, parse_signature
from placet.signing.verify import require_signed_by

TOKEN_LIFETIME = timedelta(seconds=60)
CLOCK_SKEW = timedelta(seconds=30)
MAX_TOKEN_LENGTH = 8_000


class PrefillClaims(Struct, frozen=True, kw_only=True):
    """What a token says: the address that it is for, the case, the field, and when it was made."""

    aud: str
    sub: str
    field: str
    iat: Annotated[int, Meta(ge=0, le=2**40)]
    exp: Annotated[int, Meta(ge=0, le=2**40)]
    jti: str


async def sign_prefill_token(
    signer: Signer, *, url: str, case_id: str, field: str, shown: str, now: datetime, nonce: str
) -> str:
    """Return the token for one request to `url`. `shown` is the digest of the case's offer."""
    made_at = int(now.timestamp())
    ends_at = made_at + int(TOKEN_LIFETIME.total_seconds())
    claims = PrefillClaims(aud=url, sub=case_id, field=field, iat=made_at, exp=ends_at, jti=nonce)
    payload = msgspec.json.encode(claims)
    (detached,) = await signer.sign_all([Claim(payload, shown)])
    header, _, signature = detached.partition("..")
    return f"{header}.{urlsafe_b64encode(payload).rstrip(b'=').decode()}.{signature}"


def verify_prefill_token(token: str, jwks: Mapping[str, Any], *, url: str, now: datetime) -> PrefillClaims:
    """Return what a token says; raise SignatureInvalid unless it was made for `url` and has not expired.

    `jwks` are the keys that the server publishes. Remember `jti` until `exp` to accept each token once.
    """
    parts = token.split(".")
    if len(token) > MAX_TOKEN_LENGTH or len(parts) != 3:
        raise SignatureInvalid("This is not a token for default_ref.")
    try:
        payload = _decode(parts[1])
        claims = msgspec.json.decode(payload, type=PrefillClaims)
        header = msgspec.json.decode(_decode(parts[0]), type=dict[str, Any])
    except (ValueError, msgspec.DecodeError) as error:
        raise SignatureInvalid("This is not a token for default_ref.") from error
    made_at = datetime.fromtimestamp(claims.iat, now.tzinfo)
    signature = parse_signature(
        {
            "algorithm": header.get("alg"),
            "value": f"{parts[0]}..{parts[2]}",
            "signed_at": format_wire_time(made_at),
            "signer": "",
        }
    )
    require_signed_by(signature, payload, jwks)
    if claims.aud != url:
        raise SignatureInvalid("This token is for another address.")
    if not made_at - CLOCK_SKEW <= now < datetime.fromtimestamp(claims.exp, now.tzinfo) + CLOCK_SKEW:
        raise SignatureInvalid("This token has expired, or is not valid yet.")
    return claims


def _decode(text: str) -> bytes:
    if not text.isascii():
        raise ValueError("not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
