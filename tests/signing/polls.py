"""Signed poll responses as they are read off the wire, for the tests beside this file."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cache
from typing import Any

from placet.protocol.signed_result import build_signing_payload
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, generate_key
from tests.signing.samples import DATA, MOMENT, NOW, SHOWN

SIGNER = "https://placet.example/.well-known/jwks.json"


@cache
def ring(algorithm: str) -> KeyRing:
    """One ring per algorithm: making an RSA key takes a while."""
    return KeyRing.of([generate_key(algorithm, now=NOW)])


def signed_poll(signer: JwsSigner, data: Any = DATA, **changes: Any) -> dict[str, Any]:
    """A completed poll response, signed; `changes` replace its top-level members before signing."""
    case = {"case_id": "case_7Qm", "completed_at": MOMENT, "action": "approve", "shown": SHOWN, **changes}
    value = signer.sign(build_signing_payload(data=data, **case), shown=case["shown"])
    signature = {
        "algorithm": signer.algorithm,
        "value": value,
        "signed_at": case["completed_at"],
        "signer": SIGNER,
    }
    poll = {
        "status": "completed",
        "case_id": case["case_id"],
        "created_at": "2026-11-20T10:00:00Z",
        "completed_at": case["completed_at"],
        "result": {"action": case["action"], "data": data, "signature": signature},
    }
    return json.loads(json.dumps(poll))


def header_of(value: str) -> dict[str, Any]:
    """The protected header of a compact JWS."""
    return json.loads(unbase64url(value.split(".", maxsplit=1)[0]))


def base64url(data: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def unbase64url(text: str) -> bytes:
    """The bytes of base64url without padding."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
